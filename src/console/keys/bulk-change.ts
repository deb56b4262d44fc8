import type { Clock } from '../../domain/clock.ts'
import { isKnownPlan, planExpected } from '../../domain/key/key-fields.ts'
import { planNewPlan, planRevocation } from '../../domain/key/key-life.ts'
import type { KeyRecord, StoredKey } from '../../domain/key/key-record.ts'
import {
  type Announced,
  awaitConfirmations,
  type ConfirmationReport,
  combineAnnounced,
  isAnnounced,
  type PendingChange,
  readConfirmations,
} from '../announcing/index.ts'
import type { Caller } from '../platform/access/principal.ts'
import { auditPlan, auditRevocation } from '../platform/audit/entries.ts'
import { findTrouble } from '../platform/database/database-unavailable.ts'
import type { OperationContext } from '../platform/http/request-context.ts'
import { type KeyView, viewAfter } from './key-view.ts'
import { type BulkProgress, readChangeProgress } from './operations/change-progress.ts'
import { changeState, type StateStep } from './operations/key-operations.ts'
import {
  GaveUp,
  type OperationRejection,
  type OperationResult,
  type OperationSuccess,
  type Registry,
} from './operations/registry.ts'
import { type BulkChanged, type BulkChanges, type LivePosition, PlansChanged } from './rows/bulk-rows.ts'

/** After so long a call answers, and another one goes on: clients and proxies give up on one that takes minutes. */
const CALL_MS = 5000
/** Each batch adds this to the time that its call may wait for the outbox. */
const WAIT_PER_BATCH_MS = 1000
const MAX_WAIT_MS = 30_000

type BulkRegistry = Pick<
  Registry,
  'bulk' | 'gateways' | 'inEachRegion' | 'clock' | 'timers' | 'newAuditId' | 'createEvents' | 'count'
>

export interface BulkOutcome extends BulkProgress {
  readonly kind: 'bulk_done'
  /** Keys that this call changed. */
  readonly changed: number
  /** The newest key to change, if some up to it are left; null: all are changed. */
  readonly leftUntilId: string | null
}

export interface BulkContext {
  readonly caller: Caller
  readonly mustWait: boolean
  /** Of an earlier call that left some; null for the first call. */
  readonly untilId?: string | null
}

/** What becomes of the keys of a workspace that have not ended. */
interface BulkChange {
  /** Leaves out keys with this plan; absent: none. */
  readonly withoutPlan?: string | null
  /** Keys that were added during the change are changed as well. */
  readonly includesNew?: boolean
  /** Changes some of them in one transaction, so that they are no longer found. */
  readonly changeSome: (ids: readonly string[]) => Promise<BulkChanged>
}

/**
 * Revokes every key of a workspace that was committed before the first call and has not ended, and those that rotations have put in
 * their place since.
 */
export function revokeAllKeys(
  registry: BulkRegistry,
  workspaceId: string,
  context: BulkContext,
): Promise<BulkOutcome> {
  const describeChange = (key: StoredKey) => recordRevocation(registry, key, context.caller)
  const changeSome = (ids: readonly string[]) =>
    registry.bulk.changeKeys({ ids, plan: planRevocation, describeChange })
  return registry.count('revoke_all', () => changeLiveKeys(registry, workspaceId, { changeSome }, context))
}

function recordRevocation({ newAuditId, createEvents }: BulkRegistry, replaced: StoredKey, caller: Caller) {
  const { record } = replaced
  const atMs = record.revokedAtMs ?? 0
  const audit = auditRevocation(record, 'bulk', { id: newAuditId(atMs), atMs, caller })
  return { audit, events: createEvents({ issued: null, replaced, record, audit: [audit] }) }
}

/** The plan of a workspace was changed again: the later change goes on with all keys. */
interface PlanSuperseded {
  readonly kind: 'other_plan'
}

/**
 * Gives a workspace a plan: it is that of keys that are issued later, and of every key that has not ended. Keys that others issue,
 * import or rotate meanwhile are among the ones or the others. Of two changes at once, the later one ends the other.
 * @param plan null: none
 */
export function setWorkspacePlan(
  registry: BulkRegistry & Pick<Registry, 'plans' | 'knownPlans'>,
  { workspaceId, plan }: { readonly workspaceId: string; readonly plan: string | null },
  context: BulkContext,
): Promise<BulkOutcome | PlanSuperseded | Extract<OperationRejection, { kind: 'invalid' }>> {
  const { plans, bulk, knownPlans, newAuditId } = registry
  return registry.count('workspace_plan', async () => {
    if (!isKnownPlan(plan, knownPlans)) {
      return { kind: 'invalid', field: 'plan', expected: planExpected(knownPlans) } as const
    }
    const describeChange = (old: string | null, atMs: number) =>
      auditPlan(workspaceId, { old, new: plan }, { id: newAuditId(atMs), atMs, caller: context.caller })
    // Another call of the same change must not undo a later one.
    if ((context.untilId ?? null) === null) await plans.changePlan({ workspaceId, plan, describeChange })
    // A batch checks it, too, but none follows if each key has this plan.
    else if ((await plans.findPlan(workspaceId)) !== plan) return { kind: 'other_plan' } as const
    const planOne = (record: KeyRecord, nowMs: number) => planNewPlan(record, plan, nowMs)
    const workspacePlans = new Map([[workspaceId, plan]])
    // The audit log names one change of the workspace.
    const changeSome = (ids: readonly string[]) =>
      bulk.changeKeys({ ids, plan: planOne, describeChange: null, workspacePlans })
    const change = { withoutPlan: plan, includesNew: true, changeSome }
    return changeLiveKeys(registry, workspaceId, change, context).catch((error: unknown) => {
      if (error instanceof PlansChanged) return { kind: 'other_plan' } as const
      throw error
    })
  })
}

/**
 * Changes every key of a workspace that was committed before the first call and has not ended, in calls of some seconds.
 * Each batch is announced while the next one is committed. After a crash or an error, a repeated call changes the rest.
 * @param mustWait the last call waits for up to a second until at least one gateway is known and all have confirmed
 */
async function changeLiveKeys(
  registry: BulkRegistry,
  workspaceId: string,
  change: BulkChange,
  { mustWait, untilId: earlierId = null }: Pick<BulkContext, 'mustWait' | 'untilId'>,
): Promise<BulkOutcome> {
  const { bulk, inEachRegion, clock } = registry
  const allowance = new WaitAllowance(clock)
  const waitFor = (maxMs: number) => {
    const atMs = clock.wallMs()
    return inEachRegion(outbox => outbox.hasAnnounced(workspaceId, atMs, maxMs))
  }
  const endMs = clock.monotonicMs() + CALL_MS
  // A key issued later has a greater id, so that the calls end however many are issued meanwhile.
  const untilId = earlierId ?? (await bulk.newestKeyId(workspaceId))
  let [changed, isLeft] = [0, false]
  let last: LastChange | null = null
  let announcing: Promise<Announced> = Promise.resolve([])
  for await (const ids of liveBatches(bulk, workspaceId, untilId, change)) {
    isLeft = changed > 0 && clock.monotonicMs() > endMs
    if (isLeft) break
    const { keys, pending } = await change.changeSome(ids)
    changed += keys.length
    last = lastOf(keys, pending) ?? last
    allowance.addBatch()
    // Behind a late batch the others are left to the outbox, so that announcements do not pile up here.
    announcing = isAnnounced(await announcing)
      ? inEachRegion(outbox => outbox.announce(keys, pending))
      : allowance.spend(waitFor, WAIT_PER_BATCH_MS)
  }
  await announcing
  const announced = await allowance.spend(waitFor, isLeft ? WAIT_PER_BATCH_MS : undefined)
  const gateways = await findConfirmations(registry, last, { announced, mustWait: mustWait && !isLeft })
  const progress = { announced, gateways, lastKeyId: last?.keyId ?? null, committedAtMs: last?.atMs ?? null }
  return { kind: 'bulk_done', changed, ...progress, leftUntilId: isLeft ? untilId : null }
}

interface LastChange extends PendingChange {
  readonly keyId: string
}

function lastOf(keys: readonly StoredKey[], pending: readonly PendingChange[]): LastChange | null {
  const [key, change] = [keys.at(-1), pending.at(-1)]
  return key === undefined || change === undefined ? null : { ...change, keyId: key.record.id }
}

/** Ids of keys that have not ended, until there are none. */
async function* liveBatches(
  bulk: Pick<BulkChanges, 'listLive' | 'listSuccessors' | 'newestKeyId'>,
  workspaceId: string,
  newestId: string | null,
  { withoutPlan, includesNew = false }: BulkChange,
): AsyncGenerator<readonly string[]> {
  let [untilId, mayExtend] = [newestId, includesNew]
  let after: LivePosition | null = null
  while (untilId !== null) {
    const range = { workspaceId, after, untilId, withoutPlan }
    const live: LivePosition[] = await bulk.listLive(range)
    // An edit may have moved one to before what was read.
    if (live.length === 0 && after === null) {
      if (!mayExtend) break
      mayExtend = false
      untilId = await bulk.newestKeyId(workspaceId)
    }
    if (live.length > 0) yield live.map(({ id }) => id)
    after = live.at(-1) ?? null
  }
  // None of them can be rotated any more. A new key that its issuer did not choose to replace one of them stays.
  while (untilId !== null && !includesNew) {
    const ids = await bulk.listSuccessors({ workspaceId, untilId })
    if (ids.length === 0) return
    yield ids
  }
}

async function findConfirmations(
  registry: BulkRegistry,
  last: LastChange | null,
  { announced, mustWait }: { readonly announced: Announced; readonly mustWait: boolean },
): Promise<ConfirmationReport | null> {
  if (last === null) return null
  const change = { ...last, committedAtMs: last.atMs }
  const read = mustWait ? awaitConfirmations : readConfirmations
  return read(registry, change, announced).catch((error: unknown) => {
    // The keys are changed, which must not look like a failure.
    if (findTrouble(error) === null) throw error
    return null
  })
}

/** How long one call over many keys may still wait for the outbox: a slow one is waited for, a stalled one not for long. */
export class WaitAllowance {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  #batches = 0
  #usedMs = 0

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock
  }

  addBatch(): void {
    this.#batches += 1
  }

  /** A call without any batch waits for changes of earlier calls. */
  get leftMs(): number {
    const totalMs = Math.min(Math.max(this.#batches, 1) * WAIT_PER_BATCH_MS, MAX_WAIT_MS)
    return Math.max(0, totalMs - this.#usedMs)
  }

  /** @param wait waits for so long at most */
  async spend<Result>(
    wait: (maxMs: number) => Promise<Result>,
    atMostMs = Number.POSITIVE_INFINITY,
  ): Promise<Result> {
    const startedAtMs = this.#clock.monotonicMs()
    try {
      return await wait(Math.min(this.leftMs, atMostMs))
    } finally {
      this.#usedMs += this.#clock.monotonicMs() - startedAtMs
    }
  }
}

/** What became of one of several keys. `unknown`: the database did not say. */
export interface ChangedKey {
  readonly key: KeyView
  readonly outcome: 'changed' | 'unchanged' | 'final' | 'gave_up' | 'unknown'
}

export interface SelectedOutcome {
  readonly keys: readonly ChangedKey[]
  /** Null if no key is as it should be. */
  readonly progress: BulkProgress | null
}

/**
 * Changes each key by itself, with its own audit entry, all at once: on PostgreSQL their reads, their commits and the end of their
 * announcements are shared, so that a hundred keys cost a few round trips.
 * @throws if all fail, or one for another reason than a database that does not say, or other changes of the key
 */
export async function changeSelected(
  registry: Registry,
  keys: readonly KeyView[],
  step: StateStep,
  context: OperationContext,
): Promise<SelectedOutcome> {
  const results = await Promise.allSettled(
    keys.map(({ record }) => changeState(registry, step, record.id, context)),
  )
  const failures = results.flatMap(result =>
    result.status === 'rejected' && !(result.reason instanceof GaveUp) ? result : [],
  )
  const fault = failures.find(({ reason }) => findTrouble(reason) === null)
  if (fault !== undefined || failures.length === keys.length) throw (fault ?? failures[0])?.reason
  const done = results.flatMap(result =>
    result.status === 'fulfilled' && result.value.kind === 'done' ? result.value : [],
  )
  return {
    keys: keys.map((key, index) => {
      const result = results[index]
      if (result?.status === 'fulfilled') return describeOne(registry, key, result.value)
      return { key, outcome: result?.reason instanceof GaveUp ? 'gave_up' : 'unknown' }
    }),
    progress: await readBulkProgress(registry, done),
  }
}

function describeOne(registry: Registry, before: KeyView, result: OperationResult): ChangedKey {
  if (result.kind !== 'done' && result.kind !== 'final') return { key: before, outcome: 'unknown' }
  if (result.kind === 'final') return { key: { ...before, state: result.state }, outcome: 'final' }
  const outcome = result.changed ? 'changed' : 'unchanged'
  return { key: viewAfter(result.record, before, registry), outcome }
}

async function readBulkProgress(
  registry: Registry,
  done: readonly OperationSuccess[],
): Promise<SelectedOutcome['progress']> {
  const changed = done.filter(one => one.changed)
  const last = (changed.length > 0 ? changed : done)
    .toSorted((a, b) => (a.committedAtMs ?? 0) - (b.committedAtMs ?? 0))
    .at(-1)
  if (last === undefined) return null
  const { gateways, committedAtMs } = await readChangeProgress(registry, last, true)
  const announced = combineAnnounced(done.map(({ announced }) => announced))
  return { announced, gateways, committedAtMs, lastKeyId: last.record.id }
}
