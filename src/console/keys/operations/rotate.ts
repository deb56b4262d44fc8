import { planRotation, type RotateRequest } from '../../../domain/key/rotate-key.ts'
import { auditRevocation, auditRotation } from '../../platform/audit/entries.ts'
import type { Registry } from '../registry.ts'
import { drawKey } from './issue.ts'
import {
  type OperationContext,
  type OperationRejection,
  type OperationSuccess,
  type PlannedChange,
  runOperation,
} from './run-operation.ts'

/** Of several concurrent rotations one succeeds; the others find the key no longer active. */
export function rotateKey(
  registry: Registry,
  keyId: string,
  request: RotateRequest,
  context: OperationContext,
): Promise<OperationSuccess | OperationRejection> {
  return runOperation(registry, context, () => planOnce(registry, keyId, request, context))
}

async function planOnce(
  registry: Registry,
  keyId: string,
  request: RotateRequest,
  { caller }: OperationContext,
): Promise<PlannedChange | OperationRejection> {
  const old = await registry.repository.findById(keyId)
  if (old === null) return { kind: 'unknown_key' }
  const nowMs = registry.clock.wallMs()
  const { id, secret, hint, digest } = drawKey(registry, nowMs)
  const planned = planRotation(old.record, request, { id, hint, createdBy: caller.actor, nowMs })
  if (planned.kind !== 'planned') return planned
  const { successor, replaced } = planned.rotation
  const nextEntry = () => ({ id: registry.newAuditId(nowMs), atMs: nowMs, caller })
  const audit = [auditRotation(planned.rotation, nextEntry())]
  if (replaced.revokedAtMs !== null) audit.push(auditRevocation(replaced, 'rotation', nextEntry()))
  return {
    kind: 'planned',
    issued: { record: successor, digest },
    replaced: { record: replaced, digest: old.digest },
    audit,
    record: successor,
    digest,
    secret,
  }
}
