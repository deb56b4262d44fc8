import type { KeyRecord } from '../../../domain/key/key-record.ts'
import type { AuditContext, KeyAuditEntry } from '../../platform/audit/entries.ts'
import type { Registry } from '../registry.ts'
import {
  type OperationContext,
  type OperationRejection,
  type OperationSuccess,
  runOperation,
} from './run-operation.ts'

/** The next record of a key, and what the audit log says of the change. */
export interface PlannedKeyChange {
  readonly kind: 'planned'
  /** The stored object itself where nothing changes. */
  readonly record: KeyRecord
  readonly audit: (context: AuditContext) => KeyAuditEntry
}

/** Changes one stored key. A change of nothing has no new version and no audit entry. */
export function changeKey(
  registry: Registry,
  keyId: string,
  context: OperationContext,
  plan: (record: KeyRecord, nowMs: number) => PlannedKeyChange | OperationRejection,
): Promise<OperationSuccess | OperationRejection> {
  const { repository, clock, newAuditId } = registry
  const { caller } = context
  return runOperation(registry, context, async () => {
    const key = await repository.findById(keyId)
    if (key === null) return { kind: 'unknown_key' }
    const nowMs = clock.wallMs()
    const change = plan(key.record, nowMs)
    if (change.kind !== 'planned') return change
    const { record, audit } = change
    const { digest } = key
    const unchanged = record === key.record
    const common = { kind: 'planned', issued: null, record, digest, secret: null } as const
    if (unchanged) return { ...common, replaced: null, audit: [] }
    const entry = audit({ id: newAuditId(nowMs), atMs: nowMs, caller })
    return { ...common, replaced: { record, digest }, audit: [entry] }
  })
}
