import { isKnownPlan, planExpected } from '../../domain/key/key-fields.ts'
import { auditPlan } from '../platform/audit/entries.ts'
import { type BulkContext, type BulkOutcome, type BulkRegistry, changeLiveKeys } from './bulk-change.ts'
import type { Registry } from './registry.ts'
import type { OperationRejection } from './run-operation.ts'

/**
 * Gives a workspace a plan: it is that of keys that are issued later, and of every key that has not ended. Keys that others issue,
 * import or rotate meanwhile are among the ones or the others.
 * @param plan null: none
 */
export function setWorkspacePlan(
  registry: BulkRegistry & Pick<Registry, 'knownPlans'>,
  { workspaceId, plan }: { readonly workspaceId: string; readonly plan: string | null },
  context: BulkContext,
): Promise<BulkOutcome | Extract<OperationRejection, { kind: 'invalid' }>> {
  const { repository, knownPlans, newAuditId } = registry
  return registry.count('workspace_plan', async () => {
    if (!isKnownPlan(plan, knownPlans)) {
      return { kind: 'invalid', field: 'plan', expected: planExpected(knownPlans) } as const
    }
    const describeChange = (old: string | null, atMs: number) =>
      auditPlan(workspaceId, { old, new: plan }, { id: newAuditId(atMs), atMs, caller: context.caller })
    await repository.changePlan({ workspaceId, plan, describeChange })
    const changeSome = (ids: readonly string[]) => repository.givePlan({ ids, plan })
    const change = { withoutPlan: plan, includesNew: true, changeSome }
    return changeLiveKeys(registry, workspaceId, change, context)
  })
}
