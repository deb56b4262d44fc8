import { type ExpressionBuilder, type Kysely, sql } from 'kysely'
import { encodeTime } from 'ulid'
import type {
  AuditDetail,
  AuditEntry,
  AuditFilter,
  AuditPage,
  AuditQuery,
  ExportPosition,
} from '../../operations/audit.ts'
import type { AuditAction } from '../../operations/audit-actions.ts'
import type { Dialect } from '../database.ts'
import type { PageOptions } from '../key-repository.ts'
import type { AuditRow, Tables } from '../tables.ts'

const ULID_TIME_LENGTH = 10
/** An id is never older than its entry, and newer only while the clock of a console was set back. */
const CLOCK_STEP_MS = 3_600_000

export async function listAudit(
  database: Kysely<Tables>,
  { workspaceId, limit, afterId }: PageOptions,
  dialect: Dialect,
): Promise<AuditPage> {
  return searchAudit(database, { filter: {}, workspaces: [workspaceId], limit, afterId }, dialect)
}

/** Newest first. */
export async function searchAudit(
  database: Kysely<Tables>,
  query: AuditQuery,
  dialect: Dialect,
): Promise<AuditPage> {
  const { workspaces, limit } = query
  // One more than the limit shows whether there is a next page.
  const rows = (
    workspaces === null
      ? await selectEntries(database, query).execute()
      : await searchWorkspaces(database, query, workspaces, dialect)
  ).slice(0, limit + 1)
  const entries = rows.slice(0, limit).map(entryOfRow)
  return { entries, nextAfterId: rows.length > limit ? (entries.at(-1)?.id ?? null) : null }
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
