import type { Clock } from '../../domain/clock.ts'
import type { KeyRecord } from '../../domain/key/key-record.ts'
import { createChangeWriter } from '../registry/database/change-writer.ts'
import type { Database } from '../registry/database/database.ts'
import type { PageOptions } from '../registry/database/key-repository.ts'
import {
  type AttemptOutcome,
  claimDueDeliveries,
  type Delivery,
  type DueDelivery,
  findExpiringKeys,
  insertEvents,
  listDeliveries,
  makeDue,
  purgeDeliveries,
  recordAttempt,
} from './delivery-rows.ts'
import type { WebhookEvent } from './webhook-event.ts'

/** Webhook events and their delivery. Events of a change are inserted in the transaction of the change. */
export interface WebhookDeliveries {
  insert(events: readonly WebhookEvent[]): Promise<void>
  /** Oldest first; other consoles leave them alone for `forMs`. */
  claim(limit: number, forMs: number): Promise<DueDelivery[]>
  recordAttempt(delivery: DueDelivery, outcome: AttemptOutcome): Promise<void>
  /** Makes an event due again that was delivered or given up. */
  makeDue(event: { readonly workspaceId: string; readonly id: string }): Promise<void>
  /** Newest first. */
  list(page: PageOptions): Promise<{ deliveries: readonly Delivery[]; nextAfterId: string | null }>
  /** Keys that expire in a span of time and have no event for it yet. */
  findExpiringKeys(span: { days: number; afterMs: number; untilMs: number }): Promise<KeyRecord[]>
  /** Deletes what was delivered or given up more than 30 days ago. */
  purge(): Promise<void>
}

export function createWebhookDeliveries(database: Database, clock: Clock): WebhookDeliveries {
  const { reader, dialect } = database
  const writer = createChangeWriter(database)
  const now = () => clock.wallMs()
  return {
    insert: events => writer.run(tx => insertEvents(tx, events)),
    claim: (limit, forMs) =>
      writer.run(tx =>
        claimDueDeliveries(tx, { nowMs: now(), claimedUntilMs: now() + forMs, limit, dialect }),
      ),
    recordAttempt: (delivery, outcome) => writer.run(tx => recordAttempt(tx, delivery, outcome, now())),
    makeDue: event => writer.run(tx => makeDue(tx, event, now())),
    list: page => listDeliveries(reader, page),
    findExpiringKeys: span => findExpiringKeys(reader, span),
    async purge() {
      while (await writer.run(tx => purgeDeliveries(tx, now()))) {}
    },
  }
}
