import { type Kysely, sql } from 'kysely'
import type { Clock } from '../../../domain/clock.ts'
import type { Tables } from '../database/tables.ts'
import { type Condition, conditionOf, inWorkspace, whereOf } from './key-conditions.ts'
import { hasConditions, type KeySelector } from './key-query.ts'
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
  const endMs = context.clock.monotonicMs() + DEADLINE_MS
  let total = 0
  for (const workspaceId of selector.workspaceIds ?? [null]) {
    let afterId: string | null = null
    do {
      if (context.clock.monotonicMs() > endMs) return null
      const counted: Counted = await countStretch(database, { selector, workspaceId, afterId }, context)
      total += counted.matches
      afterId = counted.end_id
    } while (afterId !== null)
  }
  return total
}

interface Counted {
  readonly matches: number
  /** Null: nothing is left. */
  readonly end_id: string | null
}

async function countStretch(
  database: Kysely<Tables>,
  place: { selector: KeySelector; workspaceId: string | null; afterId: string | null },
  { nowMs, dialect }: SearchContext,
): Promise<Counted> {
  const { selector, workspaceId, afterId } = place
  const size = hasConditions(selector) ? EXAMINED_AT_ONCE : COUNTED_AT_ONCE
  const later: Condition | null = afterId === null ? null : sql`id > ${afterId}`
  const ids = sql`select id from keys ${whereOf([inWorkspace('workspace_id', workspaceId), later])} order by id limit ${size}`
  const condition = conditionOf(selector, nowMs, dialect)
  const counted =
    condition === null
      ? sql`(select count(*) from ids)`
      : sql`(select count(*) from ids cross join keys where keys.id = ids.id and ${condition})`
  const { rows } = await sql<Counted>`
    with ids as materialized (${ids})
    select ${counted} as matches,
      (select max(id) from ids where (select count(*) from ids) = ${size}) as end_id`.execute(database)
  const [row] = rows
  if (row === undefined) throw new Error('A count returned no row')
  return row
}
