import { type Kysely, sql, type Transaction } from 'kysely'
import type { StoredKey } from '../../../domain/key/key-record.ts'
import type { Dialect } from '../../platform/database/database.ts'
import type { PageOptions } from '../../platform/database/first-rows.ts'
import { readKeyRow } from '../../platform/database/key-row.ts'
import type { Tables } from '../../platform/database/tables.ts'

/** Keys that a statement of a sync reads, expired ones included. */
const EXAMINED_AT_ONCE = 10_000
/** A key in constant use is written once a second, not for each report. */
const ACCURACY_MS = 1000

export interface KeyPage {
  readonly keys: readonly StoredKey[]
  /** Where the next page starts; null on the last. */
  readonly nextAfterId: string | null
}

/** Keys by id. */
export interface SyncRange {
  /** Those that expire later; null: all. */
  readonly expiresAfterMs: number | null
  readonly limit: number
  readonly afterId: string | null
}

/** Those that exist, by the values of the column; in one query. */
export async function findKeys(
  database: Kysely<Tables>,
  column: 'id' | 'digest',
  values: readonly string[],
): Promise<ReadonlyMap<string, StoredKey>> {
  if (values.length === 0) return new Map()
  const rows = await selectKeys(database).where(column, 'in', values).execute()
  return new Map(rows.map(row => [row[column], readKeyRow(row)]))
}

/** Newest first, by id: ids grow with time, and new keys never move a page. */
export async function listKeys(
  database: Kysely<Tables>,
  { workspaceId, limit, afterId }: PageOptions,
): Promise<KeyPage> {
  let query = selectKeys(database).where('workspace_id', '=', workspaceId)
  if (afterId !== null) query = query.where('id', '<', afterId)
  // One more than the limit shows whether there is a next page.
  const newestFirst = query.orderBy('id', 'desc').limit(limit + 1)
  return takePage((await newestFirst.execute()).map(readKeyRow), limit)
}

/**
 * Oldest first, in any state. A page may be shorter than the limit, or empty: a statement examines a bounded number of keys. Of millions most may have
 * expired, and passing over all of them would take longer than a statement may.
 */
export async function listForSync(
  database: Kysely<Tables>,
  { expiresAfterMs, limit, afterId }: SyncRange,
): Promise<KeyPage> {
  const endId = expiresAfterMs === null ? null : await endOfStretch(database, afterId ?? '')
  let query = selectKeys(database)
    .where('id', '>', afterId ?? '')
    .orderBy('id')
    .limit(limit + 1)
  if (expiresAfterMs !== null) query = query.where('expires_at_ms', '>', expiresAfterMs)
  if (endId !== null) query = query.where('id', '<=', endId)
  const page = takePage((await query.execute()).map(readKeyRow), limit)
  return { ...page, nextAfterId: page.nextAfterId ?? endId }
}

/** @returns null if fewer keys are left than a stretch has */
async function endOfStretch(database: Kysely<Tables>, afterId: string): Promise<string | null> {
  const ids = database.selectFrom('keys').select('id').where('id', '>', afterId).orderBy('id')
  const end = await ids
    .offset(EXAMINED_AT_ONCE - 1)
    .limit(1)
    .executeTakeFirst()
  return end?.id ?? null
}

function selectKeys(database: Kysely<Tables>) {
  return database.selectFrom('keys').selectAll()
}

function takePage(found: readonly StoredKey[], limit: number): KeyPage {
  const keys = found.slice(0, limit)
  return { keys, nextAfterId: found.length > limit ? (keys.at(-1)?.record.id ?? null) : null }
}

/**
 * Moves each time forward only, by at least a second; unknown ids are ignored. A use is never earlier than the key, although gateways may round it down to the minute. One statement in one order, so
 * that concurrent reports about the same keys cannot deadlock.
 */
export async function recordUse(
  tx: Transaction<Tables>,
  lastUsedMs: ReadonlyMap<string, number>,
  dialect: Dialect,
): Promise<void> {
  const reported = JSON.stringify(Object.fromEntries(lastUsedMs))
  const used =
    dialect === 'sqlite'
      ? sql`json_each(${reported}) as used`
      : sql`json_each_text(${reported}::json) as used (key, value)`
  const usedAtMs = sql`cast(used.value as bigint)`
  await sql`
    insert into key_use (key_id, workspace_id, last_used_at_ms)
    select keys.id, keys.workspace_id,
      case when ${usedAtMs} < created_at_ms then created_at_ms else ${usedAtMs} end from ${used} join keys on keys.id = used.key
    where true order by keys.id
    on conflict (key_id) do update set last_used_at_ms = excluded.last_used_at_ms
    where excluded.last_used_at_ms >= key_use.last_used_at_ms + ${ACCURACY_MS}`.execute(tx)
}

/** Only of keys that were ever used. */
export async function lastUses(
  database: Kysely<Tables>,
  ids: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  if (ids.length === 0) return new Map()
  const rows = await database
    .selectFrom('key_use')
    .selectAll()
    .where('key_id', 'in', ids)
    .where('last_used_at_ms', '>', 0)
    .execute()
  return new Map(rows.map(row => [row.key_id, row.last_used_at_ms]))
}
