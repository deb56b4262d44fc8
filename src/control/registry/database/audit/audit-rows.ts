import { type ExpressionBuilder, type Kysely, sql } from 'kysely'
import { encodeTime } from 'ulid'
import type { AuditDetail, AuditEntry, AuditFilter, AuditPage, AuditQuery } from '../../operations/audit.ts'
import type { AuditAction } from '../../operations/audit-actions.ts'
import type { Dialect } from '../database.ts'
import type { ExportedAudit, PageOptions } from '../key-repository.ts'
import type { AuditRow, Tables } from '../tables.ts'
import type { AuditTarget } from './audit-chain.ts'
import { type AuditTrust, checkChained } from './audit-mac.ts'

const ULID_TIME_LENGTH = 10
/** An id is never older than its entry, and newer only while the clock of a console was set back. */
const CLOCK_STEP_MS = 3_600_000

export async function listAudit(
  database: Kysely<Tables>,
  { workspaceId, limit, afterId }: PageOptions,
  target: AuditTarget,
): Promise<AuditPage> {
  return searchAudit(database, { filter: {}, workspaces: [workspaceId], limit, afterId }, target)
}

/** Newest first. A page has fewer entries than its limit where some of the rows were not written by a console. */
export async function searchAudit(
  database: Kysely<Tables>,
  query: AuditQuery,
  { dialect, audit }: AuditTarget,
): Promise<AuditPage> {
  const { workspaces, limit } = query
  // One more than the limit shows whether there is a next page.
  const rows = (
    workspaces === null
      ? await selectEntries(database, query).execute()
      : await searchWorkspaces(database, query, workspaces, dialect)
  ).slice(0, limit + 1)
  const read = rows.slice(0, limit)
  const entries = genuineRows(read, audit).map(entryOfRow)
  return { entries, nextAfterId: rows.length > limit ? (read.at(-1)?.id ?? null) : null }
}

/** The newest ids of each workspace, then the entries: `workspace_id in (…)` would read and sort all entries of them. */
async function searchWorkspaces(
  database: Kysely<Tables>,
  query: AuditQuery,
  workspaces: readonly string[],
  dialect: Dialect,
): Promise<AuditRow[]> {
  const ofOne = selectEntries(database, query)
    .clearSelect()
    .select('id')
    .where('workspace_id', '=', sql<string>`own.value`)
  const found =
    dialect === 'postgres'
      ? sql<{ id: string }>`
          select newest.id from unnest(${workspaces}::text[]) as own (value)
          cross join lateral (${ofOne}) as newest order by newest.id desc limit ${query.limit + 1}`
      : sql<{ id: string }>`
          select newest.id from json_each(${JSON.stringify(workspaces)}) as own
          cross join audit as newest on newest.id in (${ofOne}) order by newest.id desc limit ${query.limit + 1}`
  const ids = (await found.execute(database)).rows.map(({ id }) => id)
  if (ids.length === 0) return []
  return database.selectFrom('audit').selectAll().where('id', 'in', ids).orderBy('id', 'desc').execute()
}

function selectEntries(database: Kysely<Tables>, { filter, limit, afterId }: AuditQuery) {
  return database
    .selectFrom('audit')
    .selectAll()
    .where(row =>
      row.and([...conditionsOf(row, filter), ...(afterId === null ? [] : [row('id', '<', afterId)])]),
    )
    .orderBy('id', 'desc')
    .limit(limit + 1)
}

/** Times also bound the id, so that the index that orders the entries finds them. */
function conditionsOf(
  row: ExpressionBuilder<Tables, 'audit'>,
  { keyId, actor, action, fromMs, toMs }: AuditFilter,
) {
  const conditions = []
  if (keyId !== undefined) conditions.push(row('key_id', '=', keyId))
  if (actor !== undefined) conditions.push(row('actor', '=', actor))
  if (action !== undefined) conditions.push(row('action', '=', action))
  if (fromMs !== undefined) conditions.push(row('at_ms', '>=', fromMs), row('id', '>=', firstIdAt(fromMs)))
  if (toMs !== undefined) {
    conditions.push(row('at_ms', '<', toMs), row('id', '<', firstIdAt(toMs + CLOCK_STEP_MS)))
  }
  return conditions
}

function firstIdAt(ms: number): string {
  return `audit_${encodeTime(Math.max(0, ms), ULID_TIME_LENGTH)}`
}

/** In the order of the chain: an entry that commits during an export is not skipped. */
export async function exportAudit(
  database: Kysely<Tables>,
  afterSequence: number,
  limit: number,
  audit: AuditTrust,
): Promise<ExportedAudit> {
  const read = await database
    .selectFrom('audit')
    .selectAll()
    .where('sequence', '>', afterSequence)
    .orderBy('sequence')
    .limit(limit)
    .execute()
  const nextAfter = read.length < limit ? null : (read.at(-1)?.sequence ?? null)
  return { rows: genuineRows(read, audit), nextAfter }
}

/** The rows that a console wrote. Others are reported and not shown; without signing secrets all are shown. */
export function genuineRows(rows: readonly AuditRow[], { keys, onRejected }: AuditTrust): AuditRow[] {
  if (keys.size === 0) return [...rows]
  return rows.filter(row => {
    const reason = checkChained(keys, row)
    if (reason === 'valid') return true
    onRejected({ id: row.id, place: 'log', reason, signedBy: row.signed_by })
    return false
  })
}

export function entryOfRow(row: AuditRow): AuditEntry {
  return {
    id: row.id,
    workspaceId: row.workspace_id === '' ? null : row.workspace_id,
    atMs: row.at_ms,
    actor: row.actor,
    // Only appendAudit() writes these two columns.
    action: row.action as AuditAction,
    keyId: row.key_id === '' ? null : row.key_id,
    detail: JSON.parse(row.detail) as AuditDetail,
  }
}
