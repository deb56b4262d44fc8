import type { ExpressionBuilder, Kysely } from 'kysely'
import { encodeTime } from 'ulid'
import type {
  AuditDetail,
  AuditEntry,
  AuditFilter,
  AuditPage,
  AuditQuery,
  ExportPosition,
} from '../operations/audit.ts'
import type { AuditAction } from '../operations/audit-actions.ts'
import type { PageOptions } from './key-repository.ts'
import type { AuditRow, Tables } from './tables.ts'

/** Workspaces of one statement: SQLite allows 500 parts in a union. */
const WORKSPACES_AT_ONCE = 100
const ULID_TIME_LENGTH = 10
/** An id is never older than its entry, and newer only while the clock of a console was set back. */
const CLOCK_STEP_MS = 3_600_000

export async function listAudit(
  database: Kysely<Tables>,
  { workspaceId, limit, afterId }: PageOptions,
): Promise<AuditPage> {
  return searchAudit(database, { filter: {}, workspaces: [workspaceId], limit, afterId })
}

/** Newest first. */
export async function searchAudit(database: Kysely<Tables>, query: AuditQuery): Promise<AuditPage> {
  const { workspaces, limit } = query
  // One more than the limit shows whether there is a next page.
  const rows = (
    workspaces === null
      ? await selectEntries(database, query).execute()
      : await searchWorkspaces(database, query, workspaces)
  ).slice(0, limit + 1)
  const entries = rows.slice(0, limit).map(entryOfRow)
  return { entries, nextAfterId: rows.length > limit ? (entries.at(-1)?.id ?? null) : null }
}

/** The newest of each workspace: `workspace_id in (…)` would read and sort all entries of them. */
async function searchWorkspaces(
  database: Kysely<Tables>,
  query: AuditQuery,
  workspaces: readonly string[],
): Promise<AuditRow[]> {
  const found: string[] = []
  for (let from = 0; from < workspaces.length; from += WORKSPACES_AT_ONCE) {
    const [first, ...more] = workspaces
      .slice(from, from + WORKSPACES_AT_ONCE)
      .map(workspaceId => selectIds(database, query, workspaceId))
    if (first === undefined) break
    const union = more.reduce((all, part) => all.unionAll(part), first)
    for (const { id } of await union.execute()) found.push(id)
  }
  const newest = found.sort((a, b) => (a < b ? 1 : -1)).slice(0, query.limit + 1)
  if (newest.length === 0) return []
  return database.selectFrom('audit').selectAll().where('id', 'in', newest).orderBy('id', 'desc').execute()
}

/** Only ids: of a page from many workspaces, few of the entries found are shown. */
function selectIds(database: Kysely<Tables>, query: AuditQuery, workspaceId: string) {
  const entries = selectEntries(database, query).clearSelect().select('id')
  return database.selectFrom(entries.where('workspace_id', '=', workspaceId).as('of_workspace')).select('id')
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

/** In the order of commits, as far as the chain has it: an entry that commits during an export is not skipped. */
export async function exportAudit(
  database: Kysely<Tables>,
  position: ExportPosition,
  limit: number,
): Promise<AuditRow[]> {
  const rows = database.selectFrom('audit').selectAll()
  const part =
    'id' in position
      ? rows.where('sequence', 'is', null).where('id', '>', position.id).orderBy('id')
      : rows.where('sequence', '>', position.sequence).orderBy('sequence')
  return part.limit(limit).execute()
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
