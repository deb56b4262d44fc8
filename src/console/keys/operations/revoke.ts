import { planRevocation } from '../../../domain/key/revoke-or-suspend.ts'
import { auditRevocation } from '../../platform/audit/entries.ts'
import type { Registry } from '../registry.ts'
import { changeKey } from './change-key.ts'
import type { OperationContext, OperationRejection, OperationSuccess } from './run-operation.ts'

/** Leaves a revoked or expired key unchanged. */
export function revokeKey(
  registry: Registry,
  keyId: string,
  context: OperationContext,
): Promise<OperationSuccess | OperationRejection> {
  return changeKey(registry, keyId, context, (before, nowMs) => {
    const record = planRevocation(before, nowMs)
    return { kind: 'planned', record, audit: entry => auditRevocation(record, 'request', entry) }
  })
}
