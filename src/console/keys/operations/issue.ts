import { type IssueRequest, planIssue } from '../../../domain/key/issue-key.ts'
import { planRotation, type RotateRequest } from '../../../domain/key/rotate-key.ts'
import { digestOf, hintOf, mintSecret, type Secret } from '../../../domain/key/secret.ts'
import { auditIssue, auditRevocation, auditRotation } from '../../platform/audit/entries.ts'
import type { OperationContext } from '../../platform/http/request-context.ts'
import type { Registry } from '../registry.ts'
import {
  type OperationRejection,
  type OperationSuccess,
  type PlannedChange,
  runOperation,
} from './run-operation.ts'

/** Draws a new secret if another live key of the workspace has the same hint. */
export function issueKey(
  registry: Registry,
  request: IssueRequest,
  workspaceId: string,
  context: OperationContext,
): Promise<OperationSuccess | OperationRejection> {
  return runOperation(registry, context, async () => planNewKey(registry, request, workspaceId, context))
}

function planNewKey(
  registry: Registry,
  request: IssueRequest,
  workspaceId: string,
  { caller }: OperationContext,
): PlannedChange | OperationRejection {
  const nowMs = registry.clock.wallMs()
  const { id, secret, hint, digest } = drawKey(registry, nowMs)
  const { keyPrefix, knownScopes } = registry
  const context = { id, workspaceId, hint, keyPrefix, createdBy: caller.actor, knownScopes, nowMs }
  const planned = planIssue(request, context)
  if (!planned.ok) return { kind: 'invalid', field: planned.field, expected: planned.expected }
  const record = planned.value
  const audit = [auditIssue(record, { id: registry.newAuditId(nowMs), atMs: nowMs, caller })]
  return { kind: 'planned', issued: { record, digest }, replaced: null, audit, record, digest, secret }
}

/** Of several concurrent rotations one succeeds; the others find the key no longer active. */
export function rotateKey(
  registry: Registry,
  keyId: string,
  request: RotateRequest,
  context: OperationContext,
): Promise<OperationSuccess | OperationRejection> {
  return runOperation(registry, context, () => planSuccessor(registry, keyId, request, context))
}

async function planSuccessor(
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

interface DrawnKey {
  readonly id: string
  readonly secret: Secret
  readonly hint: string
  readonly digest: string
}

function drawKey({ randomBytes, newKeyId, keyPrefix, signingKey }: Registry, nowMs: number): DrawnKey {
  const secret = mintSecret(keyPrefix, randomBytes(32), signingKey)
  return {
    id: newKeyId(nowMs),
    secret,
    hint: hintOf(secret, keyPrefix),
    digest: digestOf(secret.reveal()),
  }
}
