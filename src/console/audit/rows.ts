import { type RawBuilder, type SqlBool, sql } from 'kysely'
import { readAuditRow } from '../platform/audit/chain.ts'
import type { AuditAction, AuditEntry } from '../platform/audit/entries.ts'
import { type AuditedDatabase, genuineRows } from '../platform/audit/mac.ts'
import type { Dialect } from '../platform/database/database.ts'
import { firstAuditIdAt } from '../platform/database/ids.ts'
import {
  allOf,
  firstRows,
  inBatches,
  listAsRows,
  mostFirstRows,
  takePage,
} from '../platform/database/query-parts.ts'
import type { AuditRow } from '../platform/database/tables.ts'

/** An id is never older than its entry, and newer only while the clock of a console was set back. */
const CLOCK_STEP_MS = 3_600_000
/** Entries that a page examines at most, in parts that leave the event loop to others. */
const EXAMINED_AT_MOST = 10_000
const EXAMINED_AT_ONCE = 500

/** A database, as far as its audit log is read. */
export type ReadableAudit = Pick<AuditedDatabase, 'reader' | 'dialect' | 'audit'>

export interface AuditPage {
  readonly entries: readonly AuditEntry[]
  /** Where the next page starts; null on the last. */
  readonly nextAfterId: string | null
}

/** Conditions on entries; all of them apply. */
export interface AuditFilter {
  readonly keyId?: string | undefined
  readonly actor?: string | undefined
  readonly action?: AuditAction | undefined
  /** In ms since the epoch, inclusive. */
  readonly fromMs?: number | undefined
  /** Exclusive. */
  readonly toMs?: number | undefined
}

export interface AuditQuery {
  readonly filter: AuditFilter
  /** Null for all, and entries that concern no workspace. */
  readonly workspaces: readonly string[] | null
  readonly limit: number
  readonly afterId: string | null
}

/**
 * Newest first. Examines entries in order until the page is full; one that would have to examine too many is short, even
 * empty, before the last, as is one with rows that no console has written.
 */
export async function searchAudit(database: ReadableAudit, query: AuditQuery): Promise<AuditPage> {
  const { dialect, audit } = database
  const { limit } = query
  const rows: AuditRow[] = []
  // Finding where each of many workspaces goes on is work too.
  const places = (query.workspaces?.length ?? 1) - 1
  let { afterId } = query
  let count = limit + 1
  for (let left = EXAMINED_AT_MOST; left > 0; left -= count + places) {
    const part = await examineEntries(database, { ...query, afterId }, count)
    rows.push(...part.found)
    afterId = part.endId
    if (rows.length > limit || afterId === null) break
    count = Math.max(limit + 1, Math.min(EXAMINED_AT_ONCE, mostFirstRows(query.workspaces, dialect)))
  }
  const page = takePage(rows, limit, ({ id }) => id, afterId)
  return { entries: genuineRows(page.rows, audit).map(readAuditRow), nextAfterId: page.next }
}

interface ExaminedRow extends AuditRow {
  readonly is_match: boolean | 0 | 1
  readonly is_end: boolean | 0 | 1 | null
}

/** @returns what matches among the next entries, at most one more than the limit, and where they end; null: nothing is left */
async function examineEntries(
  { reader, dialect }: ReadableAudit,
  query: AuditQuery,
  count: number,
): Promise<{ readonly found: readonly AuditRow[]; readonly endId: string | null }> {
  const { filter, workspaces, limit, afterId } = query
  const order = { table: 'audit', value: 'id', id: 'id', descending: true } as const
  // All entries of a key are of one workspace, and few.
  const workspaceIds = filter.keyId === undefined ? workspaces : null
  const after = afterId === null ? null : { value: afterId, id: afterId }
  const entries = firstRows(
    { ...order, workspaceIds, within: indexedConditions(query), after, count },
    dialect,
  )
  const isMatch = allOf(filterConditions(filter, workspaces, dialect)) ?? sql`true`
  const last = sql`(select examined.id from examined order by examined.id limit 1)`
  const { rows } = await sql<ExaminedRow>`
    with examined as materialized (${entries})
    select audit.*, ${isMatch} as is_match,
      audit.id = ${last} and (select count(*) from examined) = ${count} as is_end
    from examined cross join audit
    where audit.id = examined.id and (${isMatch} or audit.id = ${last})
    order by audit.id desc limit ${limit + 2}`.execute(reader)
  const found = rows.filter(row => Boolean(row.is_match)).slice(0, limit + 1)
  return { found, endId: rows.find(row => Boolean(row.is_end))?.id ?? null }
}

/** What an index holds together, in the order of ids. */
function indexedConditions({ filter, workspaces }: AuditQuery): RawBuilder<SqlBool>[] {
  const { keyId, actor, action, fromMs, toMs } = filter
  const conditions: RawBuilder<SqlBool>[] = []
  if (keyId !== undefined) conditions.push(sql`key_id = ${keyId}`)
  else if (actor !== undefined) {
    conditions.push(sql`actor = ${actor}`)
    if (action !== undefined && workspaces === null) conditions.push(sql`action = ${action}`)
  } else if (action !== undefined) conditions.push(sql`action = ${action}`)
  if (fromMs !== undefined) conditions.push(sql`id >= ${firstAuditIdAt(fromMs)}`)
  if (toMs !== undefined) conditions.push(sql`id < ${firstAuditIdAt(toMs + CLOCK_STEP_MS)}`)
  return conditions
}

function filterConditions(
  { keyId, actor, action, fromMs, toMs }: AuditFilter,
  workspaces: readonly string[] | null,
  dialect: Dialect,
): RawBuilder<SqlBool>[] {
  const conditions: RawBuilder<SqlBool>[] = []
  // Where no key is asked for, the examined entries are of these workspaces.
  if (keyId !== undefined && workspaces !== null) {
    conditions.push(sql`audit.workspace_id in (select listed.value from ${listAsRows(workspaces, dialect)})`)
  }
  if (actor !== undefined) conditions.push(sql`audit.actor = ${actor}`)
  if (action !== undefined) conditions.push(sql`audit.action = ${action}`)
  if (fromMs !== undefined) conditions.push(sql`audit.at_ms >= ${fromMs}`)
  if (toMs !== undefined) conditions.push(sql`audit.at_ms < ${toMs}`)
  return conditions
}

/** In the order of the chain: an entry that commits during an export is not skipped. @param size rows of a part */
export async function* exportAudit(
  { reader, audit }: ReadableAudit,
  size: number,
): AsyncGenerator<readonly AuditRow[]> {
  const readAfter = (last: AuditRow | null) =>
    reader
      .selectFrom('audit')
      .selectAll()
      .where('sequence', '>', last?.sequence ?? 0)
      // No console gives a later place; the place of a row is where the next part begins.
      .where('sequence', '<=', Number.MAX_SAFE_INTEGER)
      .orderBy('sequence')
      .limit(size)
      .execute()
  for await (const rows of inBatches(size, readAfter)) yield genuineRows(rows, audit)
}
