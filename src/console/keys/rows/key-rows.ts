import { type Kysely, sql } from 'kysely'
import type { KeyRecord } from '../../../domain/key/key-record.ts'
import type { Dialect } from '../../platform/database/database.ts'
import type { KeyRow, Tables } from '../../platform/database/tables.ts'
import { isSelected, type KeySelection } from './key-filter.ts'
import type { ExpiryBounds, KeyCounts, KeyPage, PageOptions, StoredKey, SyncRange } from './key-repository.ts'
import { sumInStretches } from './key-stretches.ts'

/** A statement for so many keys takes well under a second. */
const COUNTED_EXACTLY = 1_000_000
/** Keys that a statement of a sync reads, expired ones included. */
const EXAMINED_AT_ONCE = 10_000

export function keyOfRow(row: KeyRow): StoredKey {
  const record: KeyRecord = {
    id: row.id,
    workspaceId: row.workspace_id,
    name: row.name,
    description: row.description,
    // Only rowOf() below writes this column.
    scopes: JSON.parse(row.scopes) as string[],
    hint: row.hint,
    createdAtMs: row.created_at_ms,
    createdBy: row.created_by,
    expiresAtMs: row.expires_at_ms,
    revokedAtMs: row.revoked_at_ms,
    suspendedAtMs: row.suspended_at_ms,
    // As the scopes.
    allowedCidrs: row.allowed_cidrs === null ? [] : (JSON.parse(row.allowed_cidrs) as string[]),
    rotatedFrom: row.rotated_from,
    replacedBy: row.replaced_by,
    version: row.version,
  }
  return { record, digest: row.digest }
}

export function rowOf({ record, digest }: StoredKey, changedAtMs: number): KeyRow {
  return {
    id: record.id,
    digest,
    workspace_id: record.workspaceId,
    name: record.name,
    scopes: JSON.stringify(record.scopes),
    hint: record.hint,
    created_at_ms: record.createdAtMs,
    created_by: record.createdBy,
    expires_at_ms: record.expiresAtMs,
    revoked_at_ms: record.revokedAtMs,
    suspended_at_ms: record.suspendedAtMs,
    description: record.description,
    allowed_cidrs: record.allowedCidrs.length === 0 ? null : JSON.stringify(record.allowedCidrs),
    rotated_from: record.rotatedFrom,
    replaced_by: record.replacedBy,
    version: record.version,
    changed_at_ms: changedAtMs,
  }
}

export function selectKeys(database: Kysely<Tables>) {
  return database.selectFrom('keys').selectAll()
}

export async function findKey(
  database: Kysely<Tables>,
  column: 'id' | 'digest',
  value: string,
): Promise<StoredKey | null> {
  const row = await selectKeys(database).where(column, '=', value).executeTakeFirst()
  return row === undefined ? null : keyOfRow(row)
}

export async function findKeys(
  database: Kysely<Tables>,
  column: 'id' | 'digest',
  values: readonly string[],
): Promise<ReadonlyMap<string, StoredKey>> {
  if (values.length === 0) return new Map()
  const rows = await selectKeys(database).where(column, 'in', values).execute()
  return new Map(rows.map(row => [row[column], keyOfRow(row)]))
}

export async function listKeys(
  database: Kysely<Tables>,
  { workspaceId, limit, afterId, selection = null }: PageOptions & { selection?: KeySelection | null },
): Promise<KeyPage> {
  let query = selectKeys(database).where('workspace_id', '=', workspaceId)
  if (selection !== null) query = query.where(row => isSelected(row, selection))
  if (afterId !== null) query = query.where('id', '<', afterId)
  // One more than the limit shows whether there is a next page.
  const newestFirst = query.orderBy('id', 'desc').limit(limit + 1)
  return pageOf((await newestFirst.execute()).map(keyOfRow), limit)
}

/**
 * A page may be shorter than the limit, or empty: a statement examines a bounded number of keys. Of millions most may have
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
  const page = pageOf((await query.execute()).map(keyOfRow), limit)
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

/** Beyond a million keys on PostgreSQL, the estimate of its statistics: counting could take longer than a statement may. */
export async function countForSync(
  database: Kysely<Tables>,
  expiresAfterMs: number,
  dialect: Dialect,
): Promise<number> {
  if (dialect === 'sqlite') {
    const later = sql`count(case when expires_at_ms > ${expiresAfterMs} then 1 end)`
    return (await sumInStretches(database, null, { later })).later
  }
  const estimate = await estimateForSync(database, expiresAfterMs)
  if (estimate > COUNTED_EXACTLY) return estimate
  const query = database.selectFrom('keys').select(({ fn }) => fn.countAll<number>().as('count'))
  return (await query.where('expires_at_ms', '>', expiresAfterMs).executeTakeFirstOrThrow()).count
}

async function estimateForSync(database: Kysely<Tables>, expiresAfterMs: number): Promise<number> {
  const { rows } = await sql<{ plan: readonly [{ Plan: { 'Plan Rows': number } }] }>`
    explain (format json) select 1 from keys where expires_at_ms > ${sql.lit(expiresAfterMs)}`.execute(
    database,
  )
  // PostgreSQL names the column `QUERY PLAN`.
  const [plan] = Object.values(rows[0] ?? {})
  return plan?.[0].Plan['Plan Rows'] ?? 0
}

function pageOf(found: readonly StoredKey[], limit: number): KeyPage {
  const keys = found.slice(0, limit)
  return { keys, nextAfterId: found.length > limit ? (keys.at(-1)?.record.id ?? null) : null }
}

/** A revoked key stays revoked after its expiry. */
export async function countByState(
  database: Kysely<Tables>,
  { nowMs, weekMs, monthMs }: ExpiryBounds,
  dialect: Dialect,
): Promise<KeyCounts> {
  const state = sql<keyof KeyCounts>`case
    when revoked_at_ms is not null then 'revoked'
    when expires_at_ms <= ${nowMs} then 'expired'
    when suspended_at_ms is not null then 'suspended'
    when expires_at_ms <= ${weekMs} then 'expiring'
    when expires_at_ms <= ${monthMs} then 'expiring_30d'
    else 'active' end`
  if (dialect === 'sqlite') {
    const count = (name: keyof KeyCounts) => sql`count(case when ${state} = ${name} then 1 end)`
    return sumInStretches(database, null, {
      active: count('active'),
      expiring_30d: count('expiring_30d'),
      expiring: count('expiring'),
      suspended: count('suspended'),
      expired: count('expired'),
      revoked: count('revoked'),
    })
  }
  const rows = await database
    .selectFrom('keys')
    .select(({ fn }) => [state.as('state'), fn.countAll<number>().as('count')])
    .groupBy('state')
    .execute()
  const counts = { active: 0, expiring_30d: 0, expiring: 0, suspended: 0, expired: 0, revoked: 0 }
  for (const row of rows) counts[row.state] = Number(row.count)
  return counts
}
