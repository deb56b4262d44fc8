import { setImmediate } from 'node:timers/promises'
import { type Kysely, sql } from 'kysely'
import { DENIAL_REASONS, denialRow } from '../../domain/denial.ts'
import { takePage } from '../platform/database/query-parts.ts'
import type { RefusalRow, Tables } from '../platform/database/tables.ts'
import type { Refusal } from './check-report.ts'
import { REFUSALS_KEPT_MS } from './rows.ts'

export const MAX_REQUEST_ID = 128
/** Each that a client can see, in the order of the alphabet. */
export const REFUSAL_CODES: readonly string[] = [
  ...new Set(DENIAL_REASONS.map(reason => denialRow(reason).code)),
].sort()

/** The form of a cursor. */
export const REFUSAL_CURSOR = /^[0-9]{1,15}\.[0-9a-f-]{36}$/

/** @param cursor in this form */
export function readRefusalCursor(cursor: string): RefusalPosition {
  const dot = cursor.indexOf('.')
  return { atMs: Number(cursor.slice(0, dot)), id: cursor.slice(dot + 1) }
}

/** @returns null for the last page */
export function refusalCursor(nextAfter: RefusalPosition | null): string | null {
  return nextAfter === null ? null : `${nextAfter.atMs}.${nextAfter.id}`
}

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

export interface RefusalQuery {
  readonly workspaceId: string
  readonly limit: number
  readonly after: RefusalPosition | null
}

export async function listRefusals(
  database: Kysely<Tables>,
  { workspaceId, limit, after }: RefusalQuery,
  nowMs: number,
): Promise<RefusalPage> {
  const sinceMs = nowMs - REFUSALS_KEPT_MS
  const rows = await selectRefusals(database, sinceMs, after)
    .where('workspace_id', '=', workspaceId)
    .limit(limit + 1)
    .execute()
  const { rows: shown, next } = takePage(rows, limit, positionOf)
  return {
    refusals: shown.map(readRefusalRow),
    sampled: await hasGap(database, workspaceId, shown.at(-1)?.at_ms ?? sinceMs),
    nextAfter: next,
  }
}

export interface RefusalSearch {
  /** As the client saw it; empty for any. */
  readonly code: string
  /** Empty for any. */
  readonly requestId: string
  readonly limit: number
  readonly after: RefusalPosition | null
}

/** Refusals of one statement of SQLite, which blocks the event loop meanwhile: about 2 ms. */
const EXAMINED_AT_ONCE = 500
/** Of one page: a search for what is rare goes on with the next one. */
const EXAMINED_AT_MOST = 5_000

/** Refusals of all workspaces that meet the conditions, newest first. A page can be short while there are more. */
export async function searchRefusals(
  database: Kysely<Tables>,
  { code, requestId, limit, after }: RefusalSearch,
  nowMs: number,
): Promise<RefusalPage> {
  const sinceMs = nowMs - REFUSALS_KEPT_MS
  const found: RefusalRow[] = []
  let position = after
  for (let examined = 0; examined < EXAMINED_AT_MOST && found.length <= limit; examined += EXAMINED_AT_ONCE) {
    const rows = await selectRefusals(database, sinceMs, position).limit(EXAMINED_AT_ONCE).execute()
    found.push(
      ...rows.filter(
        row => (code === '' || row.code === code) && (requestId === '' || row.request_id === requestId),
      ),
    )
    const last = rows.at(-1)
    position = rows.length < EXAMINED_AT_ONCE || last === undefined ? null : positionOf(last)
    if (position === null) break
    await setImmediate()
  }
  const { rows: shown, next } = takePage(found, limit, positionOf, position)
  return {
    refusals: shown.map(readRefusalRow),
    sampled: await hasGap(database, null, sinceMs),
    nextAfter: next,
  }
}

function selectRefusals(database: Kysely<Tables>, sinceMs: number, after: RefusalPosition | null) {
  const kept = database.selectFrom('refusals').selectAll().where('at_ms', '>=', sinceMs)
  const rest = after === null ? kept : kept.where(sql<boolean>`(at_ms, id) < (${after.atMs}, ${after.id})`)
  return rest.orderBy('at_ms', 'desc').orderBy('id', 'desc')
}

function positionOf(row: RefusalRow): RefusalPosition {
  return { atMs: row.at_ms, id: row.id }
}

/** Whether refusals were left out since then. @param workspaceId null: of any workspace */
async function hasGap(
  database: Kysely<Tables>,
  workspaceId: string | null,
  sinceMs: number,
): Promise<boolean> {
  const gaps = database.selectFrom('refusal_gaps').select('at_ms').where('at_ms', '>=', sinceMs).limit(1)
  const own = workspaceId === null ? gaps : gaps.where('workspace_id', '=', workspaceId)
  return (await own.executeTakeFirst()) !== undefined
}

function readRefusalRow({
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
