import { type EditRequest, planEdit } from '../../../domain/key/edit-key.ts'
import { auditEdit } from '../../platform/audit/entries.ts'
import type { Registry } from '../registry.ts'
import { changeKey } from './change-key.ts'
import type { OperationContext, OperationRejection, OperationSuccess } from './run-operation.ts'

/** @param versions those that the caller has seen: of concurrent edits, one succeeds. `any` changes the key in any version */
export function editKey(
  registry: Registry,
  keyId: string,
  { request, versions }: { readonly request: EditRequest; readonly versions: 'any' | readonly number[] },
  context: OperationContext,
): Promise<OperationSuccess | OperationRejection> {
  const { keyPrefix } = registry
  return changeKey(registry, keyId, context, (before, nowMs) => {
    const isSeen = versions === 'any' || versions.includes(before.version)
    if (!isSeen) return { kind: 'other_version', version: before.version }
    const planned = planEdit(before, request, { keyPrefix, nowMs })
    if (planned.kind !== 'planned') return planned
    const { record, changed } = planned
    return { kind: 'planned', record, audit: entry => auditEdit(before, record, changed, entry) }
  })
}
