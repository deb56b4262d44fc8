import { type Kysely, sql, type Transaction } from 'kysely'
import type { KeyRecord } from '../../domain/key-record.ts'
import type { Dialect } from '../registry/database/database.ts'
import type { PageQuestion } from '../registry/database/key-repository.ts'
import { keyOfRow, selectKeys } from '../registry/database/key-rows.ts'
import type { NoticeRow, Tables } from '../registry/database/tables.ts'
import type { Notice, NoticeType } from './webhook-event.ts'

const KEPT_MS = 30 * 86_400_000
const PURGED_AT_ONCE = 1_000
const KEYS_AT_ONCE = 500

/** A notice that is to be sent now, after so many attempts. */
export interface DueNotice {
  readonly id: string
  readonly body: string
  readonly attempts: number
}

/** What became of an attempt. */
export type Attempted =
  | { readonly kind: 'delivered'; readonly status: number }
  /** @property dueAtMs when to try again; null where it is given up */
  | {
      readonly kind: 'failed'
      readonly status: number | null
      readonly reason: string
      readonly dueAtMs: number | null
    }

/** A line of the delivery log. */
export interface Delivery {
  readonly id: string
  readonly type: NoticeType
  readonly keyId: string
  readonly atMs: number
  readonly attempts: number
  readonly deliveredAtMs: number | null
  /** Null once it was delivered or given up. */
  readonly nextAttemptAtMs: number | null
  readonly lastStatus: number | null
  readonly lastError: string | null
}

export async function insertNotices(tx: Transaction<Tables>, notices: readonly Notice[]): Promise<void> {
  for (const notice of notices) {
    await tx
      .insertInto('notices')
      .values(rowOf(notice))
      .onConflict(conflict => conflict.column('occasion').doNothing())
      .execute()
  }
}

/** Those that are due, for this console alone until `claimedUntilMs`. */
export async function claimDue(
  tx: Transaction<Tables>,
  question: { nowMs: number; claimedUntilMs: number; limit: number; dialect: Dialect },
): Promise<DueNotice[]> {
  const { nowMs, claimedUntilMs, limit, dialect } = question
  const unlocked = dialect === 'postgres' ? sql`for update skip locked` : sql``
  const { rows } = await sql<Pick<NoticeRow, 'id' | 'body' | 'attempts'>>`
    update notices set due_at_ms = ${claimedUntilMs}
    where id in (select id from notices where due_at_ms <= ${nowMs} order by due_at_ms, id limit ${limit} ${unlocked})
    returning id, body, attempts`.execute(tx)
  return rows.map(({ id, body, attempts }) => ({ id, body, attempts }))
}

export async function noteAttempt(
  tx: Transaction<Tables>,
  { id, attempts }: DueNotice,
  attempted: Attempted,
  nowMs: number,
): Promise<void> {
  const isDelivered = attempted.kind === 'delivered'
  await tx
    .updateTable('notices')
    .set({
      attempts: attempts + 1,
      due_at_ms: isDelivered ? null : attempted.dueAtMs,
      delivered_at_ms: isDelivered ? nowMs : null,
      last_status: attempted.status,
      last_error: isDelivered ? null : attempted.reason,
    })
    .where('id', '=', id)
    .execute()
}

/** Newest first, by id: ids grow with time. */
export async function listDeliveries(
  database: Kysely<Tables>,
  { workspaceId, limit, afterId }: PageQuestion,
): Promise<{ deliveries: readonly Delivery[]; nextAfterId: string | null }> {
  let query = database.selectFrom('notices').selectAll().where('workspace_id', '=', workspaceId)
  if (afterId !== null) query = query.where('id', '<', afterId)
  const found = await query
    .orderBy('id', 'desc')
    .limit(limit + 1)
    .execute()
  const deliveries = found.slice(0, limit).map(deliveryOfRow)
  return { deliveries, nextAfterId: found.length > limit ? (deliveries.at(-1)?.id ?? null) : null }
}

/** Keys that still work, were not replaced, and expire in a span of time of which nothing was told yet. */
export async function keysToWarnOf(
  database: Kysely<Tables>,
  { days, afterMs, untilMs }: { days: number; afterMs: number; untilMs: number },
): Promise<KeyRecord[]> {
  let query = selectKeys(database)
    .where('revoked_at_ms', 'is', null)
    .where('expires_at_ms', '>', afterMs)
    .where('expires_at_ms', '<=', untilMs)
    .where(
      sql<boolean>`not exists (select 1 from notices
        where occasion = keys.id || ':' || cast(keys.expires_at_ms as text) || ':' || cast(${days} as text))`,
    )
  if (days > 0) {
    // A key that was issued for less than that is expected to expire.
    const shortest = days * 86_400_000
    query = query
      .where('replaced_by', 'is', null)
      .where(sql<boolean>`expires_at_ms - created_at_ms > ${shortest}`)
  }
  const rows = await query.orderBy('expires_at_ms').limit(KEYS_AT_ONCE).execute()
  return rows.map(row => keyOfRow(row).record)
}

/** @returns whether there may be more */
export async function purgeNotices(tx: Transaction<Tables>, nowMs: number): Promise<boolean> {
  const { rows } = await sql`
    delete from notices where id in (
      select id from notices where due_at_ms is null and at_ms < ${nowMs - KEPT_MS} limit ${PURGED_AT_ONCE})
    returning id`.execute(tx)
  return rows.length === PURGED_AT_ONCE
}

function rowOf({ id, workspaceId, keyId, type, occasion, atMs, body }: Notice): NoticeRow {
  return {
    id,
    workspace_id: workspaceId,
    key_id: keyId,
    type,
    occasion,
    at_ms: atMs,
    body,
    attempts: 0,
    due_at_ms: atMs,
    delivered_at_ms: null,
    last_status: null,
    last_error: null,
  }
}

function deliveryOfRow(row: NoticeRow): Delivery {
  return {
    id: row.id,
    // Only rowOf() above writes this column.
    type: row.type as NoticeType,
    keyId: row.key_id,
    atMs: row.at_ms,
    attempts: row.attempts,
    deliveredAtMs: row.delivered_at_ms,
    nextAttemptAtMs: row.due_at_ms,
    lastStatus: row.last_status,
    lastError: row.last_error,
  }
}
