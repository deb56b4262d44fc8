import type { Clock } from '../../domain/clock.ts'
import { createChangeWriter } from '../platform/database/change-writer.ts'
import type { Database } from '../platform/database/database.ts'
import type { PageOptions } from '../platform/database/first-rows.ts'
import {
  type AttemptOutcome,
  type Claim,
  type ClaimedReceiver,
  claimDue,
  type Delivery,
  type DueDelivery,
  insertEvents,
  listDeliveries,
  makeDue,
  purgeDeliveries,
  type ReceiverKind,
  recordAttempt,
  releaseReceiver,
  type WebhookEvent,
} from '../platform/jobs/delivery-rows.ts'
import { createTestEvent } from './events.ts'

/** The queue of webhook events for all receivers. Events of a change are inserted in the transaction of the change. */
export interface Deliveries {
  insert(events: readonly WebhookEvent[]): Promise<void>
  /** Receivers with due events, the one that waited longest first; other consoles leave them alone for `forMs`. */
  claim(
    claim: Pick<Claim, 'kind' | 'receivers' | 'eventsOfEach'> & { readonly forMs: number },
  ): Promise<ClaimedReceiver[]>
  recordAttempt(delivery: DueDelivery, outcome: AttemptOutcome): Promise<void>
  /** Ends a claim. */
  release(
    receiver: string,
    state: { readonly failures: number; readonly pausedUntilMs: number },
  ): Promise<void>
  /** What was sent to receivers of one kind. */
  log(kind: ReceiverKind): DeliveryLog
  /** Deletes what was delivered or given up more than 30 days ago. */
  purge(): Promise<void>
}

/** Deliveries to receivers of one kind, and what people ask for. */
export interface DeliveryLog {
  /** Newest first. */
  list(page: PageOptions): Promise<{ deliveries: readonly Delivery[]; nextAfterId: string | null }>
  /** Sends an event of type `test`; at most one a minute for each workspace. */
  sendTest(workspaceId: string): Promise<void>
  /** Sends an event again that was delivered or given up; any other stays as it is. */
  sendAgain(event: { readonly workspaceId: string; readonly id: string }): Promise<void>
}

export function createDeliveries(
  database: Database,
  clock: Clock,
  newEventId: (nowMs: number) => string,
): Deliveries {
  const { reader, dialect } = database
  const writer = createChangeWriter(database)
  const insert = (events: readonly WebhookEvent[]) => writer.run(tx => insertEvents(tx, events))
  return {
    insert,
    claim: ({ forMs, ...claim }) => {
      const nowMs = clock.wallMs()
      return writer.run(tx => claimDue(tx, { ...claim, nowMs, claimedUntilMs: nowMs + forMs, dialect }))
    },
    recordAttempt: (delivery, outcome) =>
      writer.run(tx => recordAttempt(tx, delivery, outcome, clock.wallMs())),
    release: (receiver, state) => writer.run(tx => releaseReceiver(tx, receiver, state)),
    log: kind => ({
      list: page => listDeliveries(reader, { ...page, kind }),
      sendTest(workspaceId) {
        const atMs = clock.wallMs()
        return insert([createTestEvent(workspaceId, { id: newEventId(atMs), atMs }, kind)])
      },
      sendAgain: event => writer.run(tx => makeDue(tx, { ...event, kind }, clock.wallMs())),
    }),
    async purge() {
      while (await writer.run(tx => purgeDeliveries(tx, clock.wallMs()))) {}
    },
  }
}
