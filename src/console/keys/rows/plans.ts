import { type Kysely, sql, type Transaction } from 'kysely'
import type { Clock } from '../../../domain/clock.ts'
import { appendAudit, type WritableAudit } from '../../platform/audit/chain.ts'
import type { AuditEntry } from '../../platform/audit/entries.ts'
import type { Database, Dialect } from '../../platform/database/database.ts'
import { AuditWriteError } from '../../platform/database/database-unavailable.ts'
import { isLive } from '../../platform/database/key-row.ts'
import type { Tables } from '../../platform/database/tables.ts'
import { type CountContext, DEADLINE_MS, EXAMINED_AT_ONCE } from '../search/count-keys.ts'
import { rowsWithin } from '../search/search-keys.ts'

/** The plans of workspaces; null for one without a plan. */
export type WorkspacePlans = ReadonlyMap<string, string | null>

/** Plans of workspaces, and of keys by plan. */
export function createPlans(target: WritableAudit & Pick<Database, 'reader'>, clock: Clock) {
  const { reader, dialect } = target
  return {
    findPlan: async (workspaceId: string) =>
      (await findPlans(reader, [workspaceId])).get(workspaceId) ?? null,
    findPlans: (workspaceIds: readonly string[]) => findPlans(reader, workspaceIds),
    changePlan: (change: PlanChange) => changePlan(change, target),
    countByPlan: () => countByPlan(reader, { nowMs: clock.wallMs(), dialect, clock }),
  }
}

async function findPlans(database: Kysely<Tables>, workspaceIds: readonly string[]): Promise<WorkspacePlans> {
  // PostgreSQL has no empty list.
  if (workspaceIds.length === 0) return new Map()
  const query = database.selectFrom('workspace_plans').selectAll().where('workspace_id', 'in', workspaceIds)
  const found = new Map((await query.execute()).map(row => [row.workspace_id, row.plan]))
  return new Map(workspaceIds.map(id => [id, found.get(id) ?? null]))
}

/**
 * Whether these are still the plans of the workspaces, for keys that the transaction adds or changes. On PostgreSQL the lock, which is on the table
 * also where no row is found, keeps a change of them waiting until the keys are committed, so that it finds them.
 */
export async function areCurrent(
  tx: Transaction<Tables>,
  plans: WorkspacePlans,
  dialect: Dialect,
): Promise<boolean> {
  const ids = [...plans.keys()]
  const query = tx.selectFrom('workspace_plans').selectAll().where('workspace_id', 'in', ids)
  const locked = dialect === 'postgres' ? query.forShare() : query
  const found = new Map((await locked.execute()).map(row => [row.workspace_id, row.plan]))
  return ids.every(id => (found.get(id) ?? null) === plans.get(id))
}

interface PlanChange {
  readonly workspaceId: string
  readonly plan: string | null
  /** What the audit log says of it. @param before the plan so far */
  readonly describeChange: (before: string | null, atMs: number) => AuditEntry
}

/** Leaves a workspace unchanged that has this plan. */
async function changePlan(
  { workspaceId, plan, describeChange }: PlanChange,
  target: WritableAudit,
): Promise<void> {
  try {
    await target.changes.run(async tx => {
      // Waits for transactions that add keys under the plan so far.
      if (target.dialect === 'postgres') await sql`lock table workspace_plans in exclusive mode`.execute(tx)
      const before = (await findPlans(tx, [workspaceId])).get(workspaceId) ?? null
      if (before === plan) return
      await tx.deleteFrom('workspace_plans').where('workspace_id', '=', workspaceId).execute()
      if (plan !== null) {
        await tx.insertInto('workspace_plans').values({ workspace_id: workspaceId, plan }).execute()
      }
      await appendAudit(tx, [describeChange(before, target.now())], target)
    })
  } catch (error) {
    throw AuditWriteError.of(error)
  }
}

/** Keys that have not ended, and workspaces that have some, of one plan. */
export interface PlanCount {
  /** Null: keys without a plan. */
  readonly plan: string | null
  readonly keys: number
  readonly workspaces: number
}

/** @returns null if there were too many to count in two seconds */
async function countByPlan(
  database: Kysely<Tables>,
  { nowMs, dialect, clock }: Pick<CountContext, 'nowMs' | 'dialect' | 'clock'>,
): Promise<readonly PlanCount[] | null> {
  const live = isLive(nowMs)
  if (dialect === 'postgres') {
    const counts = sql<PlanCount>`
      select plan, count(*) as keys, count(distinct workspace_id) as workspaces from keys
      where ${live} group by plan`
    return rowsWithin(database, { statement_timeout: DEADLINE_MS }, counts)
  }
  const endMs = clock.monotonicMs() + DEADLINE_MS
  const plans = new Map<string | null, { keys: number; readonly workspaces: Set<string> }>()
  for (let afterId: string | null = ''; afterId !== null; ) {
    if (clock.monotonicMs() > endMs) return null
    const { rows } = await sql<{ plan: string | null; workspace_id: string; keys: number; last: string }>`
      select plan, workspace_id, count(case when ${live} then 1 end) as keys, max(id) as last
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
