import { planRevocation } from '../../../domain/key/revoke-key.ts'
import type { Registry } from '../registry.ts'
import { auditRevocation } from './audit.ts'
import {
  type OperationContext,
  type OperationRefusal,
  type OperationSuccess,
  type PlannedChange,
  runOperation,
} from './run-operation.ts'

/** Leaves a revoked or expired key unchanged. */
export function revokeKey(
  registry: Registry,
  keyId: string,
  context: OperationContext,
): Promise<OperationSuccess | OperationRefusal> {
  return runOperation(registry, context, () => planOnce(registry, keyId, context))
}

async function planOnce(
  { repository, clock, newAuditId }: Registry,
  keyId: string,
  { caller }: OperationContext,
): Promise<PlannedChange | OperationRefusal> {
  const key = await repository.findById(keyId)
  if (key === null) return { kind: 'unknown_key' }
  const { digest } = key
  const nowMs = clock.wallMs()
  const record = planRevocation(key.record, nowMs)
  const unchanged = record === key.record
  const replaced = unchanged ? null : { record, digest }
  const entry = () => auditRevocation(record, 'request', { id: newAuditId(nowMs), atMs: nowMs, caller })
  return {
    kind: 'planned',
    issued: null,
    replaced,
    audit: unchanged ? [] : [entry()],
    record,
    digest,
    secret: null,
  }
}
