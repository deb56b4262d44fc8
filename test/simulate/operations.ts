import { editKey } from '../../src/control/registry/operations/edit.ts'
import { revokeKey } from '../../src/control/registry/operations/revoke.ts'
import { type OperationContext, runOperation } from '../../src/control/registry/operations/run-operation.ts'
import { resumeKey, suspendKey } from '../../src/control/registry/operations/suspend.ts'
import type { OPERATIONS, Step } from './plan.ts'
import type { ConsoleRun } from './world/console-process.ts'
import { OTHER_NETWORK } from './world/gateway-process.ts'
import type { World } from './world/world.ts'

const CONTEXT: OperationContext = {
  caller: { actor: 'simulation', address: '', requestId: '' },
  idempotency: null,
}

type Operation = (console: ConsoleRun, world: World, index: number, step: Step) => Promise<unknown>

const RUN: Readonly<Record<(typeof OPERATIONS)[number], Operation>> = {
  issue: (console, world, index) => issue(console, world, index),
  revoke: ({ registry }, _world, index) => revokeKey(registry, `key_${index}`, CONTEXT),
  suspend: ({ registry }, _world, index) => suspendKey(registry, `key_${index}`, CONTEXT),
  resume: ({ registry }, _world, index) => resumeKey(registry, `key_${index}`, CONTEXT),
  narrow: (console, _world, index) => edit(console, index, { allowedCidrs: [OTHER_NETWORK] }),
  shorten(console, _world, index, { durationMs }) {
    const expiresAt = new Date(console.process.clock.wallMs() + durationMs).toISOString()
    return edit(console, index, { expiresAt })
  },
}

/** An operation of a person at one of the consoles. Whether it succeeds is up to the faults. */
export function operate(world: World, kind: (typeof OPERATIONS)[number], step: Step): void {
  const console = world.consoles[step.a % world.consoles.length]
  const index = step.b % world.digests.length
  if (console?.isServing !== true) return
  RUN[kind](console, world, index, step).catch(() => {
    // The database did not answer: the change is committed or not, as after a failed request.
  })
}

async function issue({ registry }: ConsoleRun, world: World, index: number): Promise<void> {
  const digest = world.digests[index] ?? ''
  if (world.laws.newest(digest) !== null) return
  const record = world.newRecord(index)
  const common = { record, digest, secret: null, replaced: null, audit: [] }
  await runOperation(registry, CONTEXT, async () => ({
    kind: 'planned',
    issued: { record, digest },
    ...common,
  }))
}

async function edit(
  { registry }: ConsoleRun,
  index: number,
  request: { allowedCidrs?: string[]; expiresAt?: string },
): Promise<void> {
  const id = `key_${index}`
  const key = await registry.repository.findById(id)
  if (key === null) return
  await editKey(registry, id, { request, versions: [key.record.version] }, CONTEXT)
}
