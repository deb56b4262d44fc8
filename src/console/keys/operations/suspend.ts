import { planResumption, planSuspension } from '../../../domain/key/revoke-or-suspend.ts'
import { auditResumption, auditSuspension } from '../../platform/audit/entries.ts'
import type { Registry } from '../registry.ts'
import { changeKey } from './change-key.ts'
import type { OperationContext, OperationRejection, OperationSuccess } from './run-operation.ts'

/** Leaves a suspended key unchanged. */
export function suspendKey(
  registry: Registry,
  keyId: string,
  context: OperationContext,
): Promise<OperationSuccess | OperationRejection> {
  return changeKey(registry, keyId, context, (before, nowMs) => {
    const planned = planSuspension(before, nowMs)
    if (planned.kind === 'final') return planned
    return { ...planned, audit: entry => auditSuspension(planned.record, entry) }
  })
}

/** Leaves a key unchanged that is not suspended. */
export function resumeKey(
  registry: Registry,
  keyId: string,
  context: OperationContext,
): Promise<OperationSuccess | OperationRejection> {
  return changeKey(registry, keyId, context, (before, nowMs) => {
    const planned = planResumption(before, nowMs)
    if (planned.kind === 'final') return planned
    return { ...planned, audit: entry => auditResumption(planned.record, entry) }
  })
}
