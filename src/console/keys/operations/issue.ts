import { type IssueRequest, planIssue } from '../../../domain/key/issue-key.ts'
import { digestOf, hintOf, mintSecret, type Secret } from '../../../domain/key/secret.ts'
import { auditIssue } from '../../platform/audit/entries.ts'
import type { Registry } from '../registry.ts'
import {
  type OperationContext,
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
  return runOperation(registry, context, async () => planOnce(registry, request, workspaceId, context))
}

function planOnce(
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

export interface DrawnKey {
  readonly id: string
  readonly secret: Secret
  readonly hint: string
  readonly digest: string
}

export function drawKey({ randomBytes, newKeyId, keyPrefix, signingKey }: Registry, nowMs: number): DrawnKey {
  const secret = mintSecret(keyPrefix, randomBytes(32), signingKey)
  return {
    id: newKeyId(nowMs),
    secret,
    hint: hintOf(secret, keyPrefix),
    digest: digestOf(secret.reveal()),
  }
}
