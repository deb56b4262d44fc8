import {
  type EditRequest,
  type IssueRequest,
  planEdit,
  planIssue,
  planResumption,
  planRevocation,
  planRotation,
  planSuspension,
  type RotateRequest,
} from '../../../domain/key/key-life.ts'
import type { KeyRecord, KeyState } from '../../../domain/key/key-record.ts'
import { digestKey, keyHint, mintSecret, type Secret } from '../../../domain/key/secret.ts'
import {
  type AuditContext,
  auditEdit,
  auditIssue,
  auditLeak,
  auditResumption,
  auditRevocation,
  auditRotation,
  auditSuspension,
  type KeyAuditEntry,
  type LeakFinding,
} from '../../platform/audit/entries.ts'
import { identifyRequest, type OperationContext } from '../../platform/http/request-context.ts'
import {
  type OperationRejection,
  type OperationResult,
  type OperationSuccess,
  type PlannedChange,
  type Registry,
  runOperation,
} from './registry.ts'

/** Generates another secret if another live key of the workspace has the same hint. */
export function issueKey(
  registry: Registry,
  request: IssueRequest,
  workspaceId: string,
  context: OperationContext,
): Promise<OperationResult> {
  const { clock, plans, keyPrefix, knownScopes, knownPlans, newAuditId } = registry
  const { caller } = context
  return runOperation(registry, 'issue', context, async () => {
    const workspacePlan = await plans.findPlan(workspaceId)
    const nowMs = clock.wallMs()
    const { id, secret, hint, digest } = generateKey(registry, nowMs)
    const own = { id, workspaceId, hint, createdBy: caller.actor, nowMs }
    const known = { keyPrefix, knownScopes, knownPlans, workspacePlan }
    const planned = planIssue(request, { ...own, ...known })
    if (!planned.ok) return { kind: 'invalid', field: planned.field, expected: planned.expected }
    const record = planned.value
    const audit = [auditIssue(record, { id: newAuditId(nowMs), atMs: nowMs, caller })]
    const change = { issued: { record, digest }, replaced: null, workspacePlan, audit }
    return { kind: 'planned', ...change, record, digest, secret }
  })
}

/** Of several concurrent rotations one succeeds; the others find the key no longer active. */
export function rotateKey(
  registry: Registry,
  keyId: string,
  request: RotateRequest,
  context: OperationContext,
): Promise<OperationResult> {
  return runOperation(registry, 'rotate', context, () => planSuccessor(registry, keyId, request, context))
}

async function planSuccessor(
  registry: Registry,
  keyId: string,
  request: RotateRequest,
  { caller }: OperationContext,
): Promise<PlannedChange | OperationRejection> {
  const old = await registry.stored.findById(keyId)
  if (old === null) return { kind: 'unknown_key' }
  const nowMs = registry.clock.wallMs()
  const { id, secret, hint, digest } = generateKey(registry, nowMs)
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

interface GeneratedKey {
  readonly id: string
  readonly secret: Secret
  readonly hint: string
  readonly digest: string
}

function generateKey(
  { randomBytes, newKeyId, keyPrefix, signingKey }: Registry,
  nowMs: number,
): GeneratedKey {
  const secret = mintSecret(keyPrefix, randomBytes(32), signingKey)
  return {
    id: newKeyId(nowMs),
    secret,
    hint: keyHint(secret, keyPrefix),
    digest: digestKey(secret.reveal()),
  }
}

interface Step {
  /** The states in which pages offer it. */
  readonly from: readonly KeyState[]
  /** Leaves a key as it is that the step does not change. */
  readonly plan: (record: KeyRecord, nowMs: number) => ReturnType<typeof planSuspension>
  readonly audit: (record: KeyRecord, context: AuditContext) => KeyAuditEntry
}

const STEPS = {
  suspend: { from: ['active', 'retiring'], plan: planSuspension, audit: auditSuspension },
  resume: { from: ['suspended'], plan: planResumption, audit: auditResumption },
  revoke: {
    from: ['active', 'retiring', 'suspended'],
    plan: (record, nowMs) => ({ kind: 'planned', record: planRevocation(record, nowMs) }),
    audit: (record, context) => auditRevocation(record, 'request', context),
  },
} as const satisfies Readonly<Record<string, Step>>

/** A change of the state of a key. */
export type StateStep = keyof typeof STEPS
// `Object.keys` forgets the type of a closed record's keys.
const STEP_NAMES = Object.keys(STEPS) as readonly StateStep[]

/** The steps that are offered for a key in this state; none once it has ended. */
export function stepsFrom(state: KeyState): readonly StateStep[] {
  return STEP_NAMES.filter(name => {
    const { from }: Step = STEPS[name]
    return from.includes(state)
  })
}

/** Suspends, resumes or revokes a key. One that is in that state already stays as it is, and revoking leaves an expired one. */
export function changeState(
  registry: Registry,
  step: StateStep,
  keyId: string,
  context: OperationContext,
): Promise<OperationResult> {
  const { plan, audit } = STEPS[step]
  return runOperation(registry, step, context, () =>
    planChange(registry, keyId, context, (before, nowMs) => {
      const planned = plan(before, nowMs)
      return planned.kind === 'final' ? planned : { ...planned, audit: entry => audit(planned.record, entry) }
    }),
  )
}

/** @param versions those that the caller has seen: of concurrent edits, one succeeds. `any` changes the key in any version */
export function editKey(
  registry: Registry,
  keyId: string,
  { request, versions }: { readonly request: EditRequest; readonly versions: 'any' | readonly number[] },
  context: OperationContext,
): Promise<OperationResult> {
  const { keyPrefix, knownPlans } = registry
  return runOperation(registry, 'edit', context, () =>
    planChange(registry, keyId, context, (before, nowMs) => {
      const isSeen = versions === 'any' || versions.includes(before.version)
      if (!isSeen) return { kind: 'other_version', version: before.version }
      const planned = planEdit(before, request, { keyPrefix, knownPlans, nowMs })
      if (planned.kind !== 'planned') return planned
      const { record, changed } = planned
      return { kind: 'planned', record, audit: entry => auditEdit(before, record, changed, entry) }
    }),
  )
}

/** @returns what `editKey` would write now */
export async function checkEdit(
  { stored, clock, keyPrefix, knownPlans }: Registry,
  keyId: string,
  request: EditRequest,
): Promise<OperationRejection | ReturnType<typeof planEdit>> {
  const key = await stored.findById(keyId)
  if (key === null) return { kind: 'unknown_key' }
  return planEdit(key.record, request, { keyPrefix, knownPlans, nowMs: clock.wallMs() })
}

/** The next record of a key, and what the audit log says of the change. */
interface NextRecord {
  readonly kind: 'planned'
  /** The stored object itself where nothing changes. */
  readonly record: KeyRecord
  readonly audit: (context: AuditContext) => KeyAuditEntry
}

/** Plans a change of one stored key. A change of nothing has no new version and no audit entry. */
async function planChange(
  { stored, clock, newAuditId }: Registry,
  keyId: string,
  { caller }: OperationContext,
  plan: (record: KeyRecord, nowMs: number) => NextRecord | OperationRejection,
): Promise<PlannedChange | OperationRejection> {
  const key = await stored.findById(keyId)
  if (key === null) return { kind: 'unknown_key' }
  const nowMs = clock.wallMs()
  const change = plan(key.record, nowMs)
  if (change.kind !== 'planned') return change
  const { record, audit } = change
  const { digest } = key
  const common = { kind: 'planned', issued: null, record, digest, secret: null } as const
  if (record === key.record) return { ...common, replaced: null, audit: [] }
  const entry = audit({ id: newAuditId(nowMs), atMs: nowMs, caller })
  return { ...common, replaced: { record, digest }, audit: [entry] }
}

/** What becomes of a key that was reported as leaked. */
export type LeakAction = 'revoke' | 'report'
/** `known`: this finding changed nothing, because it, or enough others, were reported before. */
export type LeakOutcome = 'revoked' | 'reported' | 'known'

interface LeakReport {
  readonly finding: LeakFinding
  readonly action: LeakAction
}

/** Places of one key that are recorded: the holder of a key cannot fill the audit log with reports of it. */
const MAX_FINDINGS = 10

/** Revokes a leaked key or notes the report. A report that was received before changes nothing. */
export async function reportLeak(
  registry: Registry,
  keyId: string,
  { finding, action }: LeakReport,
  context: OperationContext,
): Promise<(OperationSuccess & { readonly leak: LeakOutcome }) | OperationRejection> {
  const { stored, history, clock, newAuditId } = registry
  let leak: LeakOutcome = 'known'
  const result = await runOperation(registry, 'leak', context, async () => {
    const key = await stored.findById(keyId)
    if (key === null) return { kind: 'unknown_key' }
    const known = await history.listLeaks(keyId)
    const nowMs = clock.wallMs()
    const record = action === 'revoke' ? planRevocation(key.record, nowMs) : key.record
    const replaced = record === key.record ? null : { record, digest: key.digest }
    const isKnown =
      known.length >= MAX_FINDINGS || known.some(({ detail }) => detail['foundAt'] === finding.foundAt)
    leak = replaced !== null ? 'revoked' : isKnown ? 'known' : 'reported'
    const audited = { id: newAuditId(nowMs), atMs: nowMs, caller: context.caller }
    const leakEntries = (what: 'key.revoked' | 'key.reported') => [auditLeak(what, record, finding, audited)]
    const audit = leak === 'known' ? [] : leakEntries(leak === 'revoked' ? 'key.revoked' : 'key.reported')
    // A revocation is made once by the version of its key, and an entry alone has none.
    const place = JSON.stringify([keyId, finding.foundAt])
    const once = leak === 'reported' ? identifyRequest('leak', place, ['leak', {}, {}]) : null
    return { kind: 'planned', issued: null, replaced, audit, record, digest: key.digest, secret: null, once }
  })
  if (result.kind !== 'done') return result
  return { ...result, leak: result.replayed ? 'known' : leak }
}
