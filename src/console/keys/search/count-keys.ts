import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Clock } from '../../../domain/clock.ts'
import { listOf } from '../../platform/database/first-rows.ts'
import { MAY_TIME_OUT } from '../../platform/database/postgres/errors.ts'
import type { Tables } from '../../platform/database/tables.ts'
import { findCandidates, isCanceled, limitTime } from './candidate-keys.ts'
import { type Condition, conditionOf, inWorkspaces, keysWith, whereClauseOf } from './key-conditions.ts'
import type { KeySelector } from './key-query.ts'
import type { SearchContext } from './ordered-keys.ts'

/** Keys counted in one statement: `node:sqlite` blocks the event loop while one runs. */
const COUNTED_AT_ONCE = 10_000
const EXAMINED_AT_ONCE = 2500
const DEADLINE_MS = 2000

/** @returns null if there were too many to count in two seconds */
export async function countKeys(
  database: Kysely<Tables>,
  selector: KeySelector,
  context: SearchContext & { readonly clock: Clock },
): Promise<number | null> {
  if (selector.workspaceIds?.length === 0) return 0
  const isOfSeveral = selector.workspaceIds !== null && selector.workspaceIds.length > 1
  return context.dialect === 'postgres' && isOfSeveral
    ? countAtOnce(database, selector, context)
    : countInStretches(database, selector, context)
}

/** PostgreSQL has no order of several workspaces to stop and go on in. */
async function countAtOnce(
  database: Kysely<Tables>,
  selector: KeySelector,
  { nowMs, dialect }: SearchContext,
): Promise<number | null> {
  const where = whereClauseOf([
    inWorkspaces('workspace_id', selector.workspaceIds, dialect),
    conditionOf(selector, nowMs, dialect),
  ])
  try {
    return await database.transaction().execute(async tx => {
      await limitTime(tx, DEADLINE_MS)
      const counted = sql<{
        matches: number
      }>`${sql.raw(MAY_TIME_OUT)} select count(*) as matches from keys ${where}`
      const { rows } = await counted.execute(tx)
      return Number(rows[0]?.matches ?? 0)
    })
  } catch (error) {
    if (isCanceled(error)) return null
    throw error
  }
}

async function countInStretches(
  database: Kysely<Tables>,
  selector: KeySelector,
  context: SearchContext & { readonly clock: Clock },
): Promise<number | null> {
  const endMs = context.clock.monotonicMs() + DEADLINE_MS
  const candidates = await findCandidates(database, selector, context)
  if (candidates !== null) return countAmong(database, candidates, selector, context)
  let total = 0
  let left: Uncounted | null = { workspaceIds: distinct(selector.workspaceIds), afterId: '' }
  do {
    if (context.clock.monotonicMs() > endMs) return null
    const counted: Counted = await countStretch(database, selector, left, context)
    total += counted.matches
    left = leftAfter(left, counted.end_at)
  } while (left !== null)
  return total
}

/** Keys of the first workspace after an id, and all of the others. */
interface Uncounted {
  /** Null: all. */
  readonly workspaceIds: readonly string[] | null
  readonly afterId: string
}

function distinct(workspaceIds: readonly string[] | null): readonly string[] | null {
  return workspaceIds === null ? null : [...new Set(workspaceIds)]
}

function leftAfter({ workspaceIds }: Uncounted, endAt: string | null): Uncounted | null {
  if (endAt === null) return null
  const [place, afterId = ''] = endAt.split(' ')
  return { workspaceIds: workspaceIds?.slice(Number(place)) ?? null, afterId }
}

async function countAmong(
  database: Kysely<Tables>,
  ids: readonly string[],
  selector: KeySelector,
  { nowMs, dialect }: SearchContext,
): Promise<number> {
  const { workspaceIds } = selector
  const conditions = [
    inWorkspaces('keys.workspace_id', workspaceIds, dialect),
    conditionOf(selector, nowMs, dialect),
  ]
  const { rows } = await sql<{ matches: number }>`
    select count(*) as matches from ${keysWith(ids, dialect)} ${whereClauseOf(conditions)}`.execute(database)
  return rows[0]?.matches ?? 0
}

interface Counted {
  readonly matches: number
  /** The place in the list of the workspace that counting stopped in, and the last id; null: nothing is left. */
  readonly end_at: string | null
}

async function countStretch(
  database: Kysely<Tables>,
  selector: KeySelector,
  left: Uncounted,
  { nowMs, dialect }: SearchContext,
): Promise<Counted> {
  const condition = conditionOf(selector, nowMs, dialect)
  const count = condition === null ? COUNTED_AT_ONCE : EXAMINED_AT_ONCE
  const { rows } = await sql<Counted>`
    select count(*) ${condition === null ? sql`` : sql`filter (where ${condition})`} as matches,
      case when count(*) = ${count} then max(end_at) end as end_at
    from (${stretchOf(left, condition === null ? sql`keys.id` : sql`keys.*`, count)}) as keys`.execute(
    database,
  )
  const [row] = rows
  if (row === undefined) throw new Error('A count returned no row')
  return row
}

/** Of several workspaces in their order: SQLite runs a cross join as it is written, and reads each index from its start. */
function stretchOf(
  { workspaceIds, afterId }: Uncounted,
  columns: RawBuilder<unknown>,
  count: number,
): RawBuilder<unknown> {
  if (workspaceIds === null || workspaceIds.length === 1) {
    const own: Condition | null = workspaceIds === null ? null : sql`workspace_id = ${workspaceIds[0]}`
    const where = whereClauseOf([own, sql`id > ${afterId}`])
    return sql`select ${columns}, '0 ' || keys.id as end_at from keys ${where} order by id limit ${count}`
  }
  return sql`select ${columns}, printf('%09d %s', listed.key, keys.id) as end_at
    from ${listOf(workspaceIds, 'sqlite')} cross join keys indexed by keys_by_workspace
    where keys.workspace_id = listed.value and keys.id > case listed.key when 0 then ${afterId} else '' end
    limit ${count}`
}
