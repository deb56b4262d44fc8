import { type Kysely, sql, type Transaction } from 'kysely'
import type { KeyRecord } from '../../domain/key/key-record.ts'
import type { PageOptions } from '../keys/rows/key-repository.ts'
import { keyOfRow, selectKeys } from '../keys/rows/key-rows.ts'
import { isChosen } from '../platform/database/chosen-rows.ts'
import type { Dialect } from '../platform/database/database.ts'
import type { DeliveryRow, Tables } from '../platform/database/tables.ts'
import type { DueDelivery, EventReceiver, WebhookEvent, WebhookEventType } from './webhook-event.ts'
import { rowsForWorkspaces, withWebhook } from './workspaces/workspace-webhook-rows.ts'

const KEPT_MS = 30 * 86_400_000
const PURGED_AT_ONCE = 1_000
const KEYS_AT_ONCE = 500

export type AttemptOutcome =
  | { readonly kind: 'delivered'; readonly status: number }
  /** @property dueAtMs when to try again; null when it is given up */
  | {
      readonly kind: 'failed'
      readonly status: number | null
      readonly reason: string
      readonly dueAtMs: number | null
    }

/** A line of the delivery log. */
export interface Delivery {
  readonly id: string
  readonly type: WebhookEventType
  readonly keyId: string
  readonly atMs: number
  readonly attempts: number
  readonly deliveredAtMs: number | null
  /** Null once delivered or given up. */
  readonly nextAttemptAtMs: number | null
  readonly lastStatus: number | null
  readonly lastError: string | null
}

/** Tables with the same columns. */
export type DeliveryTable = 'notices' | 'workspace_notices'

export function deliveryTableOf(receiver: EventReceiver): DeliveryTable {
  return receiver === 'operator' ? 'notices' : 'workspace_notices'
}

export async function insertEvents(tx: Transaction<Tables>, events: readonly WebhookEvent[]): Promise<void> {
  const toOperator = events.filter(({ receiver }) => receiver === 'operator')
  const toWorkspaces = await rowsForWorkspaces(
    tx,
    events.filter(({ receiver }) => receiver === 'workspace').map(rowOf),
  )
  await insertRows(tx, 'notices', toOperator.map(rowOf))
  await insertRows(tx, 'workspace_notices', toWorkspaces)
}

async function insertRows(
  tx: Transaction<Tables>,
  table: DeliveryTable,
  rows: readonly DeliveryRow[],
): Promise<void> {
  for (const row of rows) {
    await tx
      .insertInto(table)
      .values(row)
      .onConflict(conflict => conflict.column('occasion').doNothing())
      .execute()
  }
}

/** Claims due deliveries: other consoles leave them alone until `claimedUntilMs`. */
export async function claimDueDeliveries(
  tx: Transaction<Tables>,
  claim: { nowMs: number; claimedUntilMs: number; limit: number; dialect: Dialect },
): Promise<DueDelivery[]> {
  const { nowMs, claimedUntilMs, limit, dialect } = claim
  const due = sql`select id from notices where due_at_ms <= ${nowMs} order by due_at_ms, id limit ${limit}`
  const { rows } = await sql<Pick<DeliveryRow, 'id' | 'body' | 'attempts'>>`
    update notices set due_at_ms = ${claimedUntilMs} where ${isChosen(sql`id`, due, dialect)}
    returning id, body, attempts`.execute(tx)
  return rows.map(({ id, body, attempts }) => ({ id, body, attempts }))
}

export async function recordAttempt(
  tx: Transaction<Tables>,
  table: DeliveryTable,
  attempt: { readonly delivery: DueDelivery; readonly outcome: AttemptOutcome; readonly nowMs: number },
): Promise<void> {
  const { outcome, nowMs } = attempt
  const { id, attempts } = attempt.delivery
  const isDelivered = outcome.kind === 'delivered'
  await tx
    .updateTable(table)
    .set({
      attempts: attempts + 1,
      due_at_ms: isDelivered ? null : outcome.dueAtMs,
      delivered_at_ms: isDelivered ? nowMs : null,
      last_status: outcome.status,
      last_error: isDelivered ? null : outcome.reason,
    })
    .where('id', '=', id)
    .execute()
}

/** Attempts go on counting: one more failure gives the event up again. */
export async function makeDue(
  tx: Transaction<Tables>,
  table: DeliveryTable,
  { workspaceId, id }: { readonly workspaceId: string; readonly id: string },
  nowMs: number,
): Promise<void> {
  await tx
    .updateTable(table)
    .set({ due_at_ms: nowMs, delivered_at_ms: null })
    .where('id', '=', id)
    .where('workspace_id', '=', workspaceId)
    // What is waiting or being sent has a time.
    .where('due_at_ms', 'is', null)
    .execute()
}

/** Newest first, by id: ids grow with time. */
export async function listDeliveries(
  database: Kysely<Tables>,
  table: DeliveryTable,
  { workspaceId, limit, afterId }: PageOptions,
): Promise<{ deliveries: readonly Delivery[]; nextAfterId: string | null }> {
  let query = database.selectFrom(table).selectAll().where('workspace_id', '=', workspaceId)
  if (afterId !== null) query = query.where('id', '<', afterId)
  const found = await query
    .orderBy('id', 'desc')
    .limit(limit + 1)
    .execute()
  const deliveries = found.slice(0, limit).map(deliveryOfRow)
  return { deliveries, nextAfterId: found.length > limit ? (deliveries.at(-1)?.id ?? null) : null }
}

/**
 * Working keys that were not replaced and expire in this span and have no event for it yet; for workspaces' webhooks, only
 * keys of those that have one.
 */
export async function findExpiringKeys(
  database: Kysely<Tables>,
  table: DeliveryTable,
  { days, afterMs, untilMs }: { days: number; afterMs: number; untilMs: number },
): Promise<KeyRecord[]> {
  let query = selectKeys(database)
    .where('revoked_at_ms', 'is', null)
    .where('expires_at_ms', '>', afterMs)
    .where('expires_at_ms', '<=', untilMs)
    .where(
      sql<boolean>`not exists (select 1 from ${sql.table(table)}
        where occasion = keys.id || ':' || cast(keys.expires_at_ms as text) || ':' || cast(${days} as text))`,
    )
  if (table === 'workspace_notices') query = query.where('workspace_id', 'in', withWebhook(database))
  if (days > 0) {
    // A key with a shorter lifetime than the warning needs no warning.
    const shortest = days * 86_400_000
    query = query
      .where('replaced_by', 'is', null)
      .where(sql<boolean>`expires_at_ms - created_at_ms > ${shortest}`)
  }
  const rows = await query.orderBy('expires_at_ms').limit(KEYS_AT_ONCE).execute()
  return rows.map(row => keyOfRow(row).record)
}

/** @returns whether there may be more */
export async function purgeDeliveries(
  tx: Transaction<Tables>,
  table: DeliveryTable,
  nowMs: number,
): Promise<boolean> {
  // Of a webhook that was removed, or while the setting is off, nothing is sent any more.
  const ended = table === 'notices' ? sql`due_at_ms is null and` : sql``
  const { rows } = await sql`
    delete from ${sql.table(table)} where id in (
      select id from ${sql.table(table)} where ${ended} at_ms < ${nowMs - KEPT_MS} limit ${PURGED_AT_ONCE})
    returning id`.execute(tx)
  return rows.length === PURGED_AT_ONCE
}

function rowOf({ id, workspaceId, keyId, type, deduplicationKey, atMs, body }: WebhookEvent): DeliveryRow {
  return {
    id,
    workspace_id: workspaceId,
    key_id: keyId,
    type,
    occasion: deduplicationKey,
    at_ms: atMs,
    body,
    attempts: 0,
    due_at_ms: atMs,
    delivered_at_ms: null,
    last_status: null,
    last_error: null,
  }
}

function deliveryOfRow(row: DeliveryRow): Delivery {
  return {
    id: row.id,
    // Only rowOf() above writes this column.
    type: row.type as WebhookEventType,
    keyId: row.key_id,
    atMs: row.at_ms,
    attempts: row.attempts,
    deliveredAtMs: row.delivered_at_ms,
    nextAttemptAtMs: row.due_at_ms,
    lastStatus: row.last_status,
    lastError: row.last_error,
  }
}
