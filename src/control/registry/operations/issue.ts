import { type IssueRequest, planIssue } from '../../../domain/issue-key.ts'
import { digestOf, hintOf, mintSecret, type Secret } from '../../../domain/secret.ts'
import type { Registry } from '../registry.ts'
import { auditIssue } from './audit.ts'
import { type Asked, type Attempt, type Done, perform, type Refusal } from './operation.ts'

/** A secret whose hint another live key of the workspace shows is drawn again. */
export function issueKey(
  registry: Registry,
  request: IssueRequest,
  workspaceId: string,
  asked: Asked,
): Promise<Done | Refusal> {
  return perform(registry, asked, async () => planOnce(registry, request, workspaceId, asked))
}

function planOnce(
  registry: Registry,
  request: IssueRequest,
  workspaceId: string,
  { caller }: Asked,
): Attempt | Refusal {
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
