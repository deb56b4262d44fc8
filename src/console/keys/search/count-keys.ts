import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Clock } from '../../../domain/clock.ts'
import { listAsRows } from '../../platform/database/first-rows.ts'
import type { Tables } from '../../platform/database/tables.ts'
import type { KeySelector } from './key-query.ts'
import {
  findByIndex,
  inWorkspaces,
  keyCondition,
  keysAmong,
  rowsWithin,
  type SearchContext,
  whereClause,
} from './search-keys.ts'

const DAY_MS = 86_400_000
const DEADLINE_MS = 2000
/** Keys of one statement of SQLite, which blocks the event loop meanwhile: of an index alone, and with what a condition reads. */
const COUNTED_AT_ONCE = 10_000
const EXAMINED_AT_ONCE = 2500

type CountContext = SearchContext & { readonly clock: Clock }

/** @returns null if there were too many to count in two seconds */
export async function countKeys(
  database: Kysely<Tables>,
  selector: KeySelector,
  context: CountContext,
): Promise<number | null> {
  if (selector.workspaceIds?.length === 0) return 0
  if (context.dialect === 'sqlite') return countInParts(database, selector, context)
  const where = whereClause([
    inWorkspaces(selector.workspaceIds, 'postgres'),
    keyCondition(selector, context.nowMs, 'postgres'),
  ])
  const matches = sql<{ count: number }>`select count(*) as count from keys ${where}`
  const rows = await rowsWithin(database, { statement_timeout: DEADLINE_MS }, matches)
  return rows === null ? null : (rows[0]?.count ?? 0)
}

async function readCount(database: Kysely<Tables>, query: RawBuilder<unknown>): Promise<number> {
  const { rows } = await sql<{ count: number }>`${query}`.execute(database)
  return Number(rows[0]?.count ?? 0)
}

async function countInParts(
  database: Kysely<Tables>,
  selector: KeySelector,
  context: CountContext,
): Promise<number | null> {
  const { clock, dialect, nowMs } = context
  const endMs = clock.monotonicMs() + DEADLINE_MS
  const ids = await findByIndex(database, selector, context)
  const { workspaceIds } = selector
  if (ids !== null) {
    return readCount(database, sql`select count(*) as count from ${keysAmong(ids, selector, context)}`)
  }
  const condition = keyCondition(selector, nowMs, dialect)
  let total = 0
  let left: Uncounted | null = {
    workspaceIds: workspaceIds === null ? null : [...new Set(workspaceIds)],
    afterId: '',
  }
  do {
    if (clock.monotonicMs() > endMs) return null
    const { matches, end }: Counted = await countPart(database, left, condition)
    total += matches
    left =
      end === null ? null : { workspaceIds: left.workspaceIds?.slice(end.place) ?? null, afterId: end.id }
  } while (left !== null)
  return total
}

/** Keys of the first workspace after an id, and all of the others; null: of all workspaces. */
interface Uncounted {
  readonly workspaceIds: readonly string[] | null
  readonly afterId: string
}

interface Counted {
  readonly matches: number
  /** The place of the workspace in the list that counting stopped in, and the last id; null: nothing is left. */
  readonly end: { readonly place: number; readonly id: string } | null
}

/** SQLite runs a cross join as it is written: workspace by workspace, and each in the order of ids. */
async function countPart(
  database: Kysely<Tables>,
  { workspaceIds, afterId }: Uncounted,
  condition: RawBuilder<unknown> | null,
): Promise<Counted> {
  const count = condition === null ? COUNTED_AT_ONCE : EXAMINED_AT_ONCE
  const columns = condition === null ? sql`keys.id` : sql`keys.*`
  const keys =
    workspaceIds === null
      ? sql`select ${columns}, 0 as place from keys where id > ${afterId} order by id`
      : sql`select ${columns}, listed.key as place
          from ${listAsRows(workspaceIds, 'sqlite')} cross join keys indexed by keys_by_workspace
          where keys.workspace_id = listed.value and keys.id > case listed.key when 0 then ${afterId} else '' end`
  const { rows } = await sql<{ examined: number; matches: number; end_at: string }>`
    select count(*) as examined, max(printf('%09d %s', place, id)) as end_at,
      ${condition === null ? sql`count(*)` : sql`count(case when ${condition} then 1 end)`} as matches
    from (${keys} limit ${count}) as keys`.execute(database)
  const [row] = rows
  if (row === undefined) throw new Error('A count returned no row')
  const [place, id = ''] = row.examined < count ? [] : row.end_at.split(' ')
  return { matches: row.matches, end: place === undefined ? null : { place: Number(place), id } }
}

/** Keys that can be revoked are counted up to here: about 10 ms. */
export const MAX_LIVE = 100_000

/** Keys that are neither revoked nor expired; one more than `MAX_LIVE` at most. */
export async function countLive(
  database: Kysely<Tables>,
  workspaceId: string,
  nowMs: number,
): Promise<number> {
  return readCount(
    database,
    sql`select count(*) as count from (
      select 1 from keys
      where workspace_id = ${workspaceId} and expires_at_ms > ${nowMs} and revoked_at_ms is null
      limit ${MAX_LIVE + 1}) as counted`,
  )
}

/** Keys examined at most, longest unused first: about 10 ms. */
const MAX_UNUSED_EXAMINED = 2500

/** Active keys that nothing seems to use. A key younger than 30 or 90 days is not counted there. */
export interface UnusedCounts {
  readonly never: number
  /** Not used in the last 30 days. */
  readonly days30: number
  readonly days90: number
  /** Not all were examined: there can be more. */
  readonly isPartial: boolean
}

/** Active keys of a workspace by their last use, from an index of it. */
export async function countUnused(
  database: Kysely<Tables>,
  workspaceId: string,
  nowMs: number,
): Promise<UnusedCounts> {
  const [days30, days90] = [nowMs - 30 * DAY_MS, nowMs - 90 * DAY_MS]
  const { rows } = await sql<Record<'examined' | 'never' | 'days30' | 'days90', number>>`
    select count(*) as examined,
      count(case when is_active and used_at_ms = 0 then 1 end) as never,
      count(case when is_active and created_at_ms < ${days30} then 1 end) as days30,
      count(case when is_active and created_at_ms < ${days90} and used_at_ms < ${days90} then 1 end) as days90
    from (
      select created_at_ms, used_at_ms, revoked_at_ms is null and suspended_at_ms is null and replaced_by is null
        and expires_at_ms > ${nowMs} as is_active
      from (
        select key_id, last_used_at_ms as used_at_ms from key_use
        where workspace_id = ${workspaceId} and last_used_at_ms < ${days30}
        order by last_used_at_ms, key_id limit ${MAX_UNUSED_EXAMINED}
      ) as unused join keys on keys.id = unused.key_id
    ) as examined`.execute(database)
  const row = rows[0]
  return {
    never: Number(row?.never ?? 0),
    days30: Number(row?.days30 ?? 0),
    days90: Number(row?.days90 ?? 0),
    isPartial: Number(row?.examined ?? 0) === MAX_UNUSED_EXAMINED,
  }
}
