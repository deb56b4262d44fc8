import type { Clock } from '../../domain/clock.ts'
import type { Database } from '../platform/database/database.ts'
import type { PageOptions } from '../platform/database/query-parts.ts'
import { createTestEvent } from './events.ts'
import {
  type AttemptOutcome,
  type Claim,
  claimDue,
  type DueDelivery,
  insertEvents,
  listDeliveries,
  makeDue,
  purgeDeliveries,
  type ReceiverKind,
  recordAttempt,
  releaseReceiver,
  type WebhookEvent,
} from './rows.ts'

/** The queue of webhook events for all receivers. Events of a change are inserted in the transaction of the change. */
export type Deliveries = ReturnType<typeof createDeliveries>

/** Deliveries to receivers of one kind, and what people ask for. */
export type DeliveryLog = ReturnType<Deliveries['log']>

export function createDeliveries(database: Database, clock: Clock, newEventId: (nowMs: number) => string) {
  const { reader, dialect, changes } = database
  const insert = (events: readonly WebhookEvent[]) => changes.run(tx => insertEvents(tx, events))
  return {
    insert,
    /** Receivers with due events, the one that waited longest first; other consoles leave them alone for `forMs`. */
    claim({
      forMs,
      ...claim
    }: Pick<Claim, 'kind' | 'receivers' | 'eventsOfEach'> & { readonly forMs: number }) {
      const nowMs = clock.wallMs()
      return changes.run(tx => claimDue(tx, { ...claim, nowMs, claimedUntilMs: nowMs + forMs, dialect }))
    },
    recordAttempt: (delivery: DueDelivery, outcome: AttemptOutcome) =>
      changes.run(tx => recordAttempt(tx, delivery, outcome, clock.wallMs())),
    /** Ends a claim. */
    release: (receiver: string, state: { readonly failures: number; readonly pausedUntilMs: number }) =>
      changes.run(tx => releaseReceiver(tx, receiver, state)),
    /** What was sent to receivers of one kind. */
    log: (kind: ReceiverKind) => ({
      /** Newest first. */
      list: (page: PageOptions) => listDeliveries(reader, { ...page, kind }),
      /** Sends an event of type `test`; at most one a minute for each workspace. @returns whether it is the one of this minute */
      async sendTest(workspaceId: string): Promise<boolean> {
        const atMs = clock.wallMs()
        const event = createTestEvent(workspaceId, { id: newEventId(atMs), atMs }, kind)
        return (await insert([event])) > 0
      },
      /** Sends an event again that was delivered or given up; any other stays as it is. */
      sendAgain: (event: { readonly workspaceId: string; readonly id: string }) =>
        changes.run(tx => makeDue(tx, { ...event, kind }, clock.wallMs())),
    }),
    /** Deletes what was delivered or given up more than 30 days ago. */
    async purge(): Promise<void> {
      while (await changes.run(tx => purgeDeliveries(tx, clock.wallMs()))) {}
    },
  }
}
