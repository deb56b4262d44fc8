import { type Kysely, sql } from 'kysely'
import type { Clock } from '../../../domain/clock.ts'
import type { Tables } from '../database/tables.ts'
import { findCandidates } from './candidate-keys.ts'
import { type Condition, conditionOf, inWorkspace, keysWith, whereClauseOf } from './key-conditions.ts'
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
    const candidates = await findCandidates(database, selector, workspaceId, context)
    if (candidates !== null) {
      total += await countAmong(database, candidates, { selector, workspaceId }, context)
      continue
    }
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

async function countAmong(
  database: Kysely<Tables>,
  ids: readonly string[],
  { selector, workspaceId }: { selector: KeySelector; workspaceId: string | null },
  { nowMs, dialect }: SearchContext,
): Promise<number> {
  const conditions = [inWorkspace('keys.workspace_id', workspaceId), conditionOf(selector, nowMs, dialect)]
  const { rows } = await sql<{ matches: number }>`
    select count(*) as matches from ${keysWith(ids, dialect)} ${whereClauseOf(conditions)}`.execute(database)
  return rows[0]?.matches ?? 0
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
  const where = whereClauseOf([inWorkspace('workspace_id', workspaceId), later])
  const condition = conditionOf(selector, nowMs, dialect)
  const { rows } = await sql<Counted>`
    select count(*) ${condition === null ? sql`` : sql`filter (where ${condition})`} as matches,
      case when count(*) = ${size} then max(id) end as end_id
    from (
      select ${condition === null ? sql`id` : sql`*`} from keys ${where} order by id limit ${size}
    ) as keys`.execute(database)
  const [row] = rows
  if (row === undefined) throw new Error('A count returned no row')
  return row
}
