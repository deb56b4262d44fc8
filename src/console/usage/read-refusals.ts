import { setImmediate } from 'node:timers/promises'
import { type Kysely, sql } from 'kysely'
import { DENIAL_REASONS, denialRow } from '../../domain/denial.ts'
import { takePage } from '../platform/database/query-parts.ts'
import type { RefusalRow, Tables } from '../platform/database/tables.ts'
import type { Refusal } from './reports/check-report.ts'
import { REFUSALS_KEPT_MS } from './reports/rows.ts'

export const MAX_REQUEST_ID = 128
/** Each that a client can see, in the order of the alphabet. */
export const REFUSAL_CODES: readonly string[] = [
  ...new Set(DENIAL_REASONS.map(reason => denialRow(reason).code)),
].sort()

/** The form of a cursor: time and id of the last refusal. */
export const REFUSAL_CURSOR = /^[0-9]{1,15}\.[0-9a-f-]{36}$/

export interface RefusalPage {
  /** Newest first. */
  readonly refusals: readonly Refusal[]
  /** Whether some between these were left out. */
  readonly sampled: boolean
  /** The cursor of the next page; null on the last. */
  readonly nextAfter: string | null
}

interface RefusalPosition {
  readonly atMs: number
  readonly id: string
}

/** Conditions on refusals; all of them apply. */
export interface RefusalFilter {
  /** As the client saw it. */
  readonly code?: string | undefined
  readonly requestId?: string | undefined
  readonly keyId?: string | undefined
  /** In ms since the epoch, inclusive. */
  readonly fromMs?: number | undefined
  /** Exclusive. */
  readonly toMs?: number | undefined
}

export interface RefusalSelection {
  readonly filter: RefusalFilter
  /** Null for all. */
  readonly workspaceId: string | null
}

export interface RefusalQuery extends RefusalSelection {
  readonly limit: number
  /** A cursor; null for the first page. */
  readonly after: string | null
}

/** Refusals of one statement of SQLite, which blocks the event loop meanwhile: about 2 ms. */
const EXAMINED_AT_ONCE = 500
/** Of one page: a search for what is rare goes on with the next one. */
const EXAMINED_AT_MOST = 5_000

/** Refusals that meet the conditions, newest first. A page can be short while there are more. */
export async function searchRefusals(
  database: Kysely<Tables>,
  { limit, after, ...selection }: RefusalQuery,
  nowMs: number,
): Promise<RefusalPage> {
  const found: RefusalRow[] = []
  const start = after === null ? null : readCursor(after)
  let [examined, oldestMs, end] = [0, nowMs - REFUSALS_KEPT_MS, start]
  for await (const part of examineRefusals(database, selection, start, nowMs)) {
    found.push(...part.found)
    end = part.end
    oldestMs = part.oldestMs ?? oldestMs
    examined += EXAMINED_AT_ONCE
    if (found.length > limit || examined >= EXAMINED_AT_MOST) break
  }
  const { rows, next } = takePage(found, limit, positionOf, end)
  return {
    refusals: rows.map(readRefusalRow),
    sampled: await hasGap(database, selection.workspaceId, next?.atMs ?? oldestMs),
    nextAfter: next === null ? null : `${next.atMs}.${next.id}`,
  }
}

/** All refusals that meet the conditions, newest first, in parts. Those that are added meanwhile are left out. */
export async function* readRefusals(
  database: Kysely<Tables>,
  selection: RefusalSelection,
  nowMs: number,
): AsyncGenerator<readonly Refusal[]> {
  for await (const { found } of examineRefusals(database, selection, null, nowMs)) {
    yield found.map(readRefusalRow)
  }
}

interface ExaminedRefusals {
  /** Those that meet the conditions. */
  readonly found: readonly RefusalRow[]
  /** Of all that were examined; null if there were none. */
  readonly oldestMs: number | null
  /** Where the next ones begin; null after the last. */
  readonly end: RefusalPosition | null
}

async function* examineRefusals(
  database: Kysely<Tables>,
  { filter, workspaceId }: RefusalSelection,
  after: RefusalPosition | null,
  nowMs: number,
): AsyncGenerator<ExaminedRefusals> {
  const { fromMs = 0, toMs } = filter
  const kept = selectRefusals(database, Math.max(fromMs, nowMs - REFUSALS_KEPT_MS))
  const own = workspaceId === null ? kept : kept.where('workspace_id', '=', workspaceId)
  const within = toMs === undefined ? own : own.where('at_ms', '<', toMs)
  let end = after
  do {
    const rest = end === null ? within : within.where(sql<boolean>`(at_ms, id) < (${end.atMs}, ${end.id})`)
    const rows: RefusalRow[] = await rest.limit(EXAMINED_AT_ONCE).execute()
    const last = rows.at(-1)
    end = rows.length < EXAMINED_AT_ONCE || last === undefined ? null : positionOf(last)
    yield { found: rows.filter(row => isMatch(row, filter)), oldestMs: last?.at_ms ?? null, end }
    await setImmediate()
  } while (end !== null)
}

function isMatch(row: RefusalRow, { code, requestId, keyId }: RefusalFilter): boolean {
  return (
    (code === undefined || row.code === code) &&
    (requestId === undefined || row.request_id === requestId) &&
    (keyId === undefined || row.key_id === keyId)
  )
}

function selectRefusals(database: Kysely<Tables>, sinceMs: number) {
  const kept = database.selectFrom('refusals').selectAll().where('at_ms', '>=', sinceMs)
  return kept.orderBy('at_ms', 'desc').orderBy('id', 'desc')
}

function readCursor(cursor: string): RefusalPosition {
  const [atMs, id = ''] = cursor.split('.')
  return { atMs: Number(atMs), id }
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
