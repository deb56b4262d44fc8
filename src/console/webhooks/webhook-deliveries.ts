import type { Clock } from '../../domain/clock.ts'
import type { KeyRecord } from '../../domain/key/key-record.ts'
import type { PageOptions } from '../keys/rows/key-repository.ts'
import { createChangeWriter } from '../platform/database/change-writer.ts'
import type { Database } from '../platform/database/database.ts'
import {
  type AttemptOutcome,
  claimDueDeliveries,
  type Delivery,
  deliveryTableOf,
  findExpiringKeys,
  insertEvents,
  listDeliveries,
  makeDue,
  purgeDeliveries,
  recordAttempt,
} from './delivery-rows.ts'
import type { DueDelivery, EventReceiver, WebhookEvent } from './webhook-event.ts'

/** Webhook events and their delivery. Events of a change are inserted in the transaction of the change. */
export interface WebhookDeliveries {
  readonly receiver: EventReceiver
  insert(events: readonly WebhookEvent[]): Promise<void>
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

/** Of the operator's webhook. */
export interface OperatorDeliveries extends WebhookDeliveries {
  /** Oldest first; other consoles leave them alone for `forMs`. */
  claim(limit: number, forMs: number): Promise<DueDelivery[]>
}

export function createOperatorDeliveries(database: Database, clock: Clock): OperatorDeliveries {
  const writer = createChangeWriter(database)
  const { dialect } = database
  return {
    ...createWebhookDeliveries(database, clock, 'operator'),
    claim: (limit, forMs) => {
      const nowMs = clock.wallMs()
      return writer.run(tx =>
        claimDueDeliveries(tx, { nowMs, claimedUntilMs: nowMs + forMs, limit, dialect }),
      )
    },
  }
}

export function createWebhookDeliveries(
  database: Database,
  clock: Clock,
  receiver: EventReceiver,
): WebhookDeliveries {
  const { reader } = database
  const writer = createChangeWriter(database)
  const table = deliveryTableOf(receiver)
  const now = () => clock.wallMs()
  return {
    receiver,
    insert: events => writer.run(tx => insertEvents(tx, events)),
    recordAttempt: (delivery, outcome) =>
      writer.run(tx => recordAttempt(tx, table, { delivery, outcome, nowMs: now() })),
    makeDue: event => writer.run(tx => makeDue(tx, table, event, now())),
    list: page => listDeliveries(reader, table, page),
    findExpiringKeys: span => findExpiringKeys(reader, table, span),
    async purge() {
      while (await writer.run(tx => purgeDeliveries(tx, table, now()))) {}
    },
  }
}
