import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { type Kysely, sql, type Transaction } from 'kysely'
import type { RefusalRow, Tables } from '../platform/database/tables.ts'
import { type FoldedReports, REFUSALS_KEPT } from './fold-reports.ts'
import type { Refusal } from './usage-report.ts'

export const REFUSALS_KEPT_MS = 7 * 86_400_000
const ROWS_AT_ONCE = 500

export interface RefusalPage {
  /** Newest first. */
  readonly refusals: readonly Refusal[]
  /** Whether some between these were left out. */
  readonly sampled: boolean
  /** Where the next page starts; null on the last. */
  readonly nextAfter: RefusalPosition | null
}

export interface RefusalPosition {
  readonly atMs: number
  readonly id: string
}

/** Adds refusals, and deletes all but the last of each workspace that has new ones. */
export async function storeRefusals(
  tx: Transaction<Tables>,
  { refusals, omitted }: Pick<FoldedReports, 'refusals' | 'omitted'>,
  nowMs: number,
): Promise<void> {
  for (let from = 0; from < refusals.length; from += ROWS_AT_ONCE) {
    // SQLite writes in the thread of the event loop.
    await setImmediate()
    await tx
      .insertInto('refusals')
      .values(refusals.slice(from, from + ROWS_AT_ONCE).map(rowOf))
      .execute()
  }
  const workspaces = [...new Set(refusals.map(refusal => refusal.workspaceId))].sort()
  for (let from = 0; from < workspaces.length; from += ROWS_AT_ONCE) {
    await keepTheLast(tx, workspaces.slice(from, from + ROWS_AT_ONCE))
  }
  for (const workspaceId of omitted) {
    await tx
      .insertInto('refusal_gaps')
      .values({ workspace_id: workspaceId, at_ms: nowMs })
      .onConflict(conflict => conflict.column('workspace_id').doUpdateSet({ at_ms: nowMs }))
      .execute()
  }
}

async function keepTheLast(tx: Transaction<Tables>, workspaces: readonly string[]): Promise<void> {
  await sql`
    delete from refusals where (workspace_id, at_ms, id) in (
      select workspace_id, at_ms, id from (
        select workspace_id, at_ms, id,
          row_number() over (partition by workspace_id order by at_ms desc, id desc) as place
        from refusals where workspace_id in (${sql.join(workspaces)})) as ranked
      where place > ${REFUSALS_KEPT})`.execute(tx)
}

export async function listRefusals(
  database: Kysely<Tables>,
  page: { readonly workspaceId: string; readonly limit: number; readonly after: RefusalPosition | null },
  nowMs: number,
): Promise<RefusalPage> {
  const { workspaceId, limit, after } = page
  const sinceMs = nowMs - REFUSALS_KEPT_MS
  let query = database
    .selectFrom('refusals')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .where('at_ms', '>=', sinceMs)
  if (after !== null) query = query.where(sql<boolean>`(at_ms, id) < (${after.atMs}, ${after.id})`)
  const rows = await query
    .orderBy('at_ms', 'desc')
    .orderBy('id', 'desc')
    .limit(limit + 1)
    .execute()
  const shown = rows.slice(0, limit)
  const last = shown.at(-1)
  return {
    refusals: shown.map(refusalOf),
    sampled: await hasGap(database, workspaceId, last?.at_ms ?? sinceMs),
    nextAfter: rows.length > limit && last !== undefined ? { atMs: last.at_ms, id: last.id } : null,
  }
}

/** Whether refusals of the workspace were left out since then. */
async function hasGap(database: Kysely<Tables>, workspaceId: string, sinceMs: number): Promise<boolean> {
  const row = await database
    .selectFrom('refusal_gaps')
    .select('at_ms')
    .where('workspace_id', '=', workspaceId)
    .where('at_ms', '>=', sinceMs)
    .executeTakeFirst()
  return row !== undefined
}

function rowOf(refusal: Refusal): RefusalRow {
  const { workspaceId, atMs, keyId, route, code, reason, requestId, address } = refusal
  const names = { workspace_id: workspaceId, at_ms: atMs, id: randomUUID(), key_id: keyId }
  return { ...names, route, code, reason, request_id: requestId, address }
}

function refusalOf({
  workspace_id,
  at_ms,
  key_id,
  request_id,
  route,
  code,
  reason,
  address,
}: RefusalRow): Refusal {
  const names = { workspaceId: workspace_id, atMs: at_ms, keyId: key_id, requestId: request_id }
  return { ...names, route, code, reason, address }
}
