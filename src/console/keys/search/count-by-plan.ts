import { type Kysely, sql } from 'kysely'
import type { Tables } from '../../platform/database/tables.ts'
import { type CountContext, DEADLINE_MS, EXAMINED_AT_ONCE } from './count-keys.ts'
import { rowsWithin } from './search-keys.ts'

/** Keys that have not ended, and workspaces that have some, of one plan. */
export interface PlanCount {
  /** Null: keys without a plan. */
  readonly plan: string | null
  readonly keys: number
  readonly workspaces: number
}

/** @returns null if there were too many to count in two seconds */
export async function countByPlan(
  database: Kysely<Tables>,
  { nowMs, dialect, clock }: Pick<CountContext, 'nowMs' | 'dialect' | 'clock'>,
): Promise<readonly PlanCount[] | null> {
  const isLive = sql`revoked_at_ms is null and expires_at_ms > ${nowMs}`
  if (dialect === 'postgres') {
    const counts = sql<PlanCount>`
      select plan, count(*) as keys, count(distinct workspace_id) as workspaces from keys
      where ${isLive} group by plan`
    return rowsWithin(database, { statement_timeout: DEADLINE_MS }, counts)
  }
  const endMs = clock.monotonicMs() + DEADLINE_MS
  const plans = new Map<string | null, { keys: number; readonly workspaces: Set<string> }>()
  for (let afterId: string | null = ''; afterId !== null; ) {
    if (clock.monotonicMs() > endMs) return null
    const { rows } = await sql<{ plan: string | null; workspace_id: string; keys: number; last: string }>`
      select plan, workspace_id, count(case when ${isLive} then 1 end) as keys, max(id) as last
      from (select * from keys where id > ${afterId} order by id limit ${EXAMINED_AT_ONCE})
      group by plan, workspace_id`.execute(database)
    for (const { plan, workspace_id, keys } of rows) {
      if (keys === 0) continue
      const sum = plans.get(plan) ?? { keys: 0, workspaces: new Set() }
      plans.set(plan, { keys: sum.keys + keys, workspaces: sum.workspaces.add(workspace_id) })
    }
    const last = rows.map(row => row.last).toSorted()
    afterId = last.at(-1) ?? null
  }
  return [...plans].map(([plan, { keys, workspaces }]) => ({ plan, keys, workspaces: workspaces.size }))
}
