import { createHash } from 'node:crypto'
import { revokeAllKeys } from '../../src/console/keys/bulk-change.ts'
import { importEntries } from '../../src/console/keys/import-export.ts'
import { changeState, editKey, rotateKey } from '../../src/console/keys/operations/key-operations.ts'
import { runOperation } from '../../src/console/keys/operations/registry.ts'
import type { OperationContext } from '../../src/console/platform/http/request-context.ts'
import type { KeyFacts } from './oracle.ts'
import type { OPERATIONS, Step } from './plan.ts'
import type { ConsoleRun } from './world/console-process.ts'
import { SCOPES, WORKSPACES } from './world/settings.ts'
import type { World } from './world/world.ts'

const CALLER = { actor: 'simulation', address: '', requestId: '' }
const CONTEXT: OperationContext = { caller: CALLER, idempotency: null }
/** Half of the clients are in it. */
const NETWORK = '203.0.113.0/24'
/** A world has no more keys: they would only make requests of each rarer. */
const MAX_KEYS = 10
const DAY_MS = 86_400_000

interface Target {
  readonly world: World
  readonly console: ConsoleRun
  readonly step: Step
  /** Of a key that exists, or might. */
  readonly digest: string
  readonly id: string
}

/** @returns what is true of a key once the operation is answered with success; null if nothing is */
type Operation = (target: Target) => Promise<((facts: KeyFacts) => boolean) | null>

const RUN: Readonly<Record<(typeof OPERATIONS)[number], Operation>> = {
  issue: issue,
  revoke: async ({ console, id }) => {
    const { kind } = await changeState(console.registry, 'revoke', id, CONTEXT)
    return kind === 'done' ? hasEnded(console) : null
  },
  suspend: async ({ console, id }) => {
    const { kind } = await changeState(console.registry, 'suspend', id, CONTEXT)
    return kind === 'done' ? ({ isSuspended }) => isSuspended : null
  },
  resume: async ({ console, id }) => {
    const { kind } = await changeState(console.registry, 'resume', id, CONTEXT)
    return kind === 'done' ? ({ isSuspended }) => !isSuspended : null
  },
  narrow: async target =>
    (await edit(target, { allowedCidrs: [NETWORK] })) ? ({ networks }) => networks.length > 0 : null,
  widen: async target =>
    (await edit(target, { allowedCidrs: [] })) ? ({ networks }) => networks.length === 0 : null,
  shorten: async target => {
    const atMs = target.console.process.clock.wallMs() + target.step.durationMs
    const isDone = await edit(target, { expiresAt: new Date(atMs).toISOString() })
    return isDone ? ({ expiresAtMs }) => expiresAtMs <= atMs : null
  },
  rotate,
  revoke_all: revokeAll,
  import: importKey,
}

/** An operation of a person at one of the consoles. Whether it succeeds is up to the faults. */
export function operate(world: World, kind: (typeof OPERATIONS)[number], step: Step): void {
  const console = world.consoles[step.a % world.consoles.length]
  const digest = world.digests[step.b % world.digests.length] ?? ''
  if (console?.isServing !== true) return
  const id = world.database.find(digest)?.record.id ?? ''
  const sinceMs = world.nowMs
  RUN[kind]({ world, console, step, digest, id }).then(
    isDone => {
      if (isDone !== null) world.laws.answered(kind, digest, sinceMs, isDone)
    },
    () => {
      // The database did not answer: the change is committed or not, as after a failed request.
    },
  )
}

/** Revoked, or expired before that. */
function hasEnded({ process }: ConsoleRun): (facts: KeyFacts) => boolean {
  const nowMs = process.clock.wallMs()
  return ({ isRevoked, expiresAtMs }) => isRevoked || expiresAtMs <= nowMs
}

async function issue({ console: { registry }, world, digest }: Target): Promise<null> {
  if (world.laws.newest(digest) !== null) return null
  const record = world.newRecord(world.digests.indexOf(digest))
  const common = { record, digest, secret: null, replaced: null, audit: [] }
  await runOperation(registry, 'issue', CONTEXT, async () => ({
    kind: 'planned',
    issued: { record, digest },
    ...common,
  }))
  return null
}

async function edit(
  { console: { registry }, id }: Target,
  request: { allowedCidrs?: string[]; expiresAt?: string },
): Promise<boolean> {
  const key = await registry.stored.findById(id)
  if (key === null) return false
  const { kind } = await editKey(registry, id, { request, versions: [key.record.version] }, CONTEXT)
  return kind === 'done'
}

/** Without an overlap, with one that ends during the schedule, or with the usual one. */
async function rotate({ console, world, step, id }: Target): ReturnType<Operation> {
  if (world.digests.length >= MAX_KEYS) return null
  const overlapMs = [0, step.durationMs, DAY_MS][step.b % 3] ?? 0
  const request = { overlapSeconds: overlapMs / 1000, expiresInDays: 30 }
  const { kind } = await rotateKey(console.registry, id, request, CONTEXT)
  if (kind !== 'done') return null
  const endsMs = console.process.clock.wallMs() + overlapMs
  return ({ isRevoked, expiresAtMs }) => (overlapMs === 0 ? isRevoked : expiresAtMs <= endsMs)
}

async function revokeAll({ console, world, step }: Target): Promise<null> {
  const workspaceId = WORKSPACES[step.b % WORKSPACES.length] ?? ''
  const sinceMs = world.nowMs
  const earlier = world.laws.digests.filter(digest => world.laws.newest(digest)?.workspaceId === workspaceId)
  const mustWait = step.a % 2 === 0
  const { leftUntilId } = await revokeAllKeys(console.registry, workspaceId, { caller: CALLER, mustWait })
  if (leftUntilId !== null) return null
  for (const digest of earlier) world.laws.answered('revoke_all', digest, sinceMs, hasEnded(console))
  return null
}

/** Of a key that clients use already, or of a new one; in any state. */
async function importKey({ console, world, step, digest: used }: Target): Promise<null> {
  if (world.digests.length >= MAX_KEYS) return null
  const { a, b, durationMs } = step
  const isUsed = world.laws.newest(used) === null
  const digest = isUsed ? used : createHash('sha256').update(`imported ${a} ${b}`).digest('hex')
  const nowMs = console.process.clock.wallMs()
  const past = new Date(nowMs - 1_000).toISOString()
  const entry = {
    digest,
    hint: `…${a}${b}`,
    workspaceId: WORKSPACES[b % WORKSPACES.length] ?? '',
    name: 'imported',
    scopes: SCOPES.slice(a % SCOPES.length),
    expiresAt: new Date(nowMs + (a % 3 === 0 ? durationMs : 30 * DAY_MS)).toISOString(),
    allowedCidrs: b % 3 === 0 ? [NETWORK] : [],
    suspendedAt: a % 4 === 0 ? past : null,
    revokedAt: b % 8 === 7 ? past : null,
  }
  const { results } = await importEntries(console.registry, [{ ok: true, entry, exportedId: null }], CALLER)
  const invalid = results.find(result => result.status === 'invalid')
  if (invalid !== undefined) world.laws.answered(`import (${invalid.error})`, digest, 0, () => false)
  return null
}
