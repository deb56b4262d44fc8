import type { KeyObject } from 'node:crypto'
import { reloadable } from '../../../config/reloadable.ts'
import type { Clock, Timers } from '../../../domain/clock.ts'
import type { FinalState, KeyRecord, KeyState, StoredKey } from '../../../domain/key/key-record.ts'
import type { Secret } from '../../../domain/key/secret.ts'
import type { Metrics } from '../../../observability/metrics/metrics.ts'
import {
  type Announced,
  combineAnnounced,
  type GatewayRows,
  type InEachRegion,
  isAnnounced,
  type PendingChange,
} from '../../announcing/index.ts'
import type { KeyAuditEntry } from '../../platform/audit/entries.ts'
import type { ConsoleContext } from '../../platform/capability.ts'
import { AuditWriteError, OutcomeUnknown, runChange } from '../../platform/database/database-unavailable.ts'
import { createIds, type RandomBytes } from '../../platform/database/ids.ts'
import { decodeOutcome, type EarlierResponse, encodeOutcome } from '../../platform/http/idempotency.ts'
import type { Idempotency, OperationContext } from '../../platform/http/request-context.ts'
import type { WebhookEvent } from '../../webhooks/index.ts'
import type { Change, KeyChange } from '../rows/commit.ts'
import type { KeyRows } from '../rows/key-rows.ts'

/** A retry follows a taken hint or a concurrent change of the same key. Both are rare. */
const MAX_ATTEMPTS = 8

/** What an operation is going to commit, planned from the stored state. */
export interface PlannedChange extends KeyChange {
  readonly kind: 'planned'
  readonly audit: readonly KeyAuditEntry[]
  /** The record of the response. */
  readonly record: KeyRecord
  readonly digest: string
  readonly secret: Secret | null
  /** What is done once, also by several consoles: a second one is answered like a repeated request. */
  readonly once?: Idempotency | null
}

export type OperationRejection =
  /** @property expected completes the sentence `<field> must be …` */
  | { readonly kind: 'invalid'; readonly field: string; readonly expected: string }
  | { readonly kind: 'unknown_key' }
  | { readonly kind: 'not_active'; readonly state: KeyState }
  /** The key is revoked or expired for good. */
  | { readonly kind: 'final'; readonly state: FinalState }
  /** The key is no longer of the version that the caller has seen. @property version the present one */
  | { readonly kind: 'other_version'; readonly version: number }
  /** The Idempotency-Key was used for a different request. */
  | { readonly kind: 'other_request' }

export interface OperationSuccess {
  readonly kind: 'done'
  readonly record: KeyRecord
  /** The key that `record` succeeds. */
  readonly replaced: StoredKey | null
  /** Shown once; stored nowhere. */
  readonly secret: Secret | null
  /** False if there was nothing to change. */
  readonly changed: boolean
  /** Digest of the key of `record`. */
  readonly digest: string
  /** Null if this request changed nothing. */
  readonly committedAtMs: number | null
  /** False for a region in whose outbox the change waits. */
  readonly announced: Announced
  /** Null if this request did not announce it. */
  readonly announcedAtMs: number | null
  /** Whether this repeats the response to an earlier request. */
  readonly replayed: boolean
}

export type OperationResult = OperationSuccess | OperationRejection

/** What operations on keys need. */
export interface Registry extends KeyRows {
  readonly inEachRegion: InEachRegion
  readonly gateways: Pick<GatewayRows, 'listGatewayStatuses'>
  /** The webhook events of a change; none without a webhook. */
  readonly createEvents: (
    change: Pick<PlannedChange, 'issued' | 'replaced' | 'record' | 'audit'>,
  ) => readonly WebhookEvent[]
  readonly count: OperationCounter
  readonly clock: Clock
  readonly timers: Timers
  readonly randomBytes: RandomBytes
  readonly newKeyId: (nowMs: number) => string
  readonly newAuditId: (nowMs: number) => string
  readonly keyPrefix: string
  readonly signingKey: KeyObject
  readonly knownScopes: readonly string[]
  readonly knownPlans: readonly string[]
}

export function createRegistry(
  { config, clock, timers, randomBytes, secrets, metrics, onReload }: ConsoleContext,
  parts: KeyRows & Pick<Registry, 'gateways' | 'inEachRegion' | 'createEvents'>,
): Registry {
  const plans = reloadable(config, onReload, ({ limits }) => Object.keys(limits.plans))
  return {
    ...parts,
    clock,
    timers,
    randomBytes,
    newKeyId: createIds('key', randomBytes),
    newAuditId: createIds('audit', randomBytes),
    keyPrefix: config.keys.prefix,
    get signingKey() {
      return secrets.value.signingKey
    },
    knownScopes: Object.keys(config.scopes),
    get knownPlans() {
      return plans.value
    },
    count: createOperationCounter(metrics),
  }
}

/** What any operation needs. */
type OperationParts = Pick<
  Registry,
  'stored' | 'commit' | 'responses' | 'inEachRegion' | 'clock' | 'createEvents' | 'count'
>

/** Nothing was changed: others changed the same key each time before. */
export class GaveUp extends Error {}

type Plan = () => Promise<PlannedChange | OperationRejection>

/**
 * Plans, commits and announces; plans again after a lost race. A repeated request gets the first response, also when
 * another console handled it, or handles it at the same time.
 * @param operation as metrics count it
 */
export function runOperation(
  parts: OperationParts,
  operation: Operation,
  { idempotency }: OperationContext,
  plan: Plan,
): Promise<OperationResult> {
  const { commit, responses, count } = parts
  const findEarlier = async () => (idempotency === null ? null : responses.findResponse(idempotency))
  return count(operation, async () => {
    const before = await findEarlier()
    if (before !== null) return replay(parts, before)
    let lost: keyof typeof GIVE_UP_REASONS = 'stale'
    for (let attempts = 0; attempts < MAX_ATTEMPTS; attempts++) {
      const planned = await plan()
      if (planned.kind !== 'planned') {
        // The rejection may be caused by the same request, committed concurrently.
        const meanwhile = await findEarlier()
        return meanwhile === null ? planned : replay(parts, meanwhile)
      }
      const change = toChange(planned, idempotency, parts)
      if (change === null) return announce(parts, planned, [])
      const { id: keyId, workspaceId } = planned.record
      const committed = await runChange({ keyId, workspaceId }, () => commit(change))
      if (committed.kind === 'committed') return announce(parts, planned, committed.pending)
      if (committed.kind === 'repeated') return replay(parts, committed.earlier)
      lost = committed.kind
    }
    throw new GaveUp(`Gave up after ${MAX_ATTEMPTS} attempts: ${GIVE_UP_REASONS[lost]}`)
  })
}

const GIVE_UP_REASONS = {
  hint_taken: 'each new key had a hint that is already in use; check the random number generator',
  stale: 'other changes to the key, or to the plan of its workspace, kept coming first',
} as const

/** @returns null for a change of nothing, which is committed only for its audit entry, or to store the response for an Idempotency-Key */
function toChange(
  planned: PlannedChange,
  idempotency: Idempotency | null,
  { createEvents }: Pick<Registry, 'createEvents'>,
): Change | null {
  const { issued, replaced, audit, record, workspacePlan, once = null } = planned
  const identity = idempotency ?? once
  const isNothing = issued === null && replaced === null && audit.length === 0
  if (isNothing && identity === null) return null
  const old = issued === null ? null : (replaced?.record ?? null)
  const response =
    identity === null ? null : { ...identity, outcome: encodeOutcome({ record, replaced: old }) }
  return { issued, replaced, workspacePlan, audit, response, events: createEvents(planned) }
}

async function announce(
  { inEachRegion, clock }: OperationParts,
  { issued, replaced, record, digest, secret }: PlannedChange,
  pending: readonly PendingChange[],
): Promise<OperationSuccess> {
  const keys = [issued, replaced].filter(key => key !== null)
  const changed = keys.length > 0
  const announced = await inEachRegion(outbox =>
    changed ? outbox.announce(keys, pending) : outbox.announcePending({ digest }),
  )
  const announcedAtMs = changed && isAnnounced(announced) ? clock.wallMs() : null
  const committedAtMs = pending.at(-1)?.atMs ?? null
  const old = issued === null ? null : replaced
  const times = { committedAtMs, announcedAtMs }
  const done = { kind: 'done', record, replaced: old, secret, changed, digest, announced } as const
  return { ...done, ...times, replayed: false }
}

/** The records of the first response, with the current state of the announcement. */
async function replay(
  { stored, inEachRegion }: OperationParts,
  earlier: EarlierResponse,
): Promise<OperationResult> {
  if (earlier.kind === 'other_request') return earlier
  const { record, replaced } = decodeOutcome(earlier.outcome)
  const ids = replaced === null ? [record.id] : [record.id, replaced.id]
  const keys = (await Promise.all(ids.map(id => stored.findById(id)))).filter(key => key !== null)
  const announced = combineAnnounced(
    await Promise.all(keys.map(key => inEachRegion(outbox => outbox.announcePending(key)))),
  )
  const findDigest = ({ id }: KeyRecord) => keys.find(key => key.record.id === id)?.digest ?? ''
  const old = replaced === null ? null : { record: replaced, digest: findDigest(replaced) }
  const repeated = { secret: null, changed: false, committedAtMs: null, announcedAtMs: null, replayed: true }
  return { kind: 'done', record, replaced: old, digest: findDigest(record), announced, ...repeated }
}

const OPERATIONS = [
  'issue',
  'rotate',
  'revoke',
  'suspend',
  'resume',
  'edit',
  'revoke_all',
  'workspace_plan',
  'import',
  'leak',
] as const
type Operation = (typeof OPERATIONS)[number]
const OUTCOMES = ['ok', 'unchanged', 'replayed', 'invalid', 'not_found', 'conflict', 'failed'] as const
type Outcome = (typeof OUTCOMES)[number]

/** What an operation says of its end. */
type Counted =
  | OperationResult
  | { readonly kind: 'bulk_done'; readonly changed: number }
  | { readonly kind: 'import_done'; readonly imported: number }
  | { readonly kind: 'other_plan' }

/** Runs an operation, and counts its outcome. */
type OperationCounter = <Result extends Counted>(
  operation: Operation,
  run: () => Promise<Result>,
) => Promise<Result>

/** Counts operations on keys by outcome, from zero so that an alert on a rate fires on the first failure. */
function createOperationCounter({ keyOperations, auditWriteFailures }: Metrics): OperationCounter {
  for (const operation of OPERATIONS) {
    for (const outcome of OUTCOMES) keyOperations.inc({ operation, outcome }, 0)
  }
  return async (operation, run) => {
    try {
      const result = await run()
      keyOperations.inc({ operation, outcome: operationOutcome(result) })
      return result
    } catch (error) {
      keyOperations.inc({ operation, outcome: 'failed' })
      const failure = error instanceof OutcomeUnknown ? error.cause : error
      if (failure instanceof AuditWriteError) auditWriteFailures.inc()
      throw error
    }
  }
}

function operationOutcome(result: Counted): Outcome {
  switch (result.kind) {
    case 'import_done':
      return result.imported > 0 ? 'ok' : 'unchanged'
    case 'bulk_done':
      return result.changed > 0 ? 'ok' : 'unchanged'
    case 'done':
      if (result.replayed) return 'replayed'
      return result.changed ? 'ok' : 'unchanged'
    case 'invalid':
      return 'invalid'
    case 'unknown_key':
      return 'not_found'
    case 'not_active':
    case 'final':
    case 'other_version':
    case 'other_request':
    case 'other_plan':
      return 'conflict'
  }
}
