import { type Kysely, sql, type Transaction } from 'kysely'
import { appendAudit, type WritableAudit } from '../../platform/audit/chain.ts'
import type { AuditEntry } from '../../platform/audit/entries.ts'
import type { Dialect } from '../../platform/database/database.ts'
import { AuditWriteError } from '../../platform/database/database-unavailable.ts'
import type { Tables } from '../../platform/database/tables.ts'

/** The plans of workspaces; null for one without a plan. */
export type WorkspacePlans = ReadonlyMap<string, string | null>

export async function findPlans(
  database: Kysely<Tables>,
  workspaceIds: readonly string[],
): Promise<WorkspacePlans> {
  // PostgreSQL has no empty list.
  if (workspaceIds.length === 0) return new Map()
  const query = database.selectFrom('workspace_plans').selectAll().where('workspace_id', 'in', workspaceIds)
  const found = new Map((await query.execute()).map(row => [row.workspace_id, row.plan]))
  return new Map(workspaceIds.map(id => [id, found.get(id) ?? null]))
}

/**
 * Whether these are still the plans of the workspaces, for keys that the transaction adds. On PostgreSQL the lock, which is on the table
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

export interface PlanChange {
  readonly workspaceId: string
  readonly plan: string | null
  /** What the audit log says of it. @param before the plan so far */
  readonly describeChange: (before: string | null, atMs: number) => AuditEntry
}

/** Leaves a workspace unchanged that has this plan. */
export async function changePlan(
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
