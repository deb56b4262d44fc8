import type { Lookup } from '../../src/domain/key/key-record.ts'
import { addRegion, fillAddedRegion } from './add-region.ts'
import { waitForAgreement } from './agreement.ts'
import { breakSomething } from './faults.ts'
import type { Violation } from './laws.ts'
import { operate } from './operations.ts'
import { OPERATIONS, type Plan, planOf, type Step, type StepKind } from './plan.ts'
import { type GatewayRun, respond, type Sent } from './world/gateway-process.ts'
import { openSqlite } from './world/sqlite-repository.ts'
import { World } from './world/world.ts'

export interface Outcome {
  readonly violation: Violation | null
  readonly virtualMs: number
  readonly events: number
  readonly decisions: number
}

/** A step has consequences for about this long; after that, requests are rarer. */
const BUSY_AFTER_MS = 4_000
const RARER = 5

const isOperation = (kind: StepKind): kind is (typeof OPERATIONS)[number] =>
  OPERATIONS.some(operation => operation === kind)

export function runSeed(seed: number): Promise<Outcome> {
  return runPlan(planOf(seed))
}

export async function runPlan({ seed, settings, steps, calmAtMs }: Plan): Promise<Outcome> {
  const sqlite = settings.isRealDatabase ? await openSqlite() : null
  try {
    return await runIn(new World(seed, settings, sqlite), { steps, calmAtMs })
  } finally {
    await sqlite?.close()
  }
}

async function runIn(world: World, { steps, calmAtMs }: Pick<Plan, 'steps' | 'calmAtMs'>): Promise<Outcome> {
  const { scheduler, laws, settings } = world
  await world.start()
  fillAddedRegion(world)
  const fault = steps.find(({ kind }) => !isOperation(kind))
  if (fault !== undefined) laws.troubledRegion = fault.region % world.sites.length
  const isBusy = busyTimes(steps)
  for (let index = 0; index < settings.gateways; index++) request(world, index, isBusy)
  for (const step of steps) {
    scheduler.at(step.atMs, () => {
      const { kind } = step
      if (isOperation(kind)) operate(world, kind, step)
      else if (kind === 'add_region') addRegion(world, step)
      else breakSomething(world, kind, step)
    })
  }
  await scheduler.run(calmAtMs)
  world.network.isCalm = true
  await waitForAgreement(world, calmAtMs)
  const { nowMs, count } = scheduler
  for (const console of world.consoles) console.end()
  for (const gateway of world.gateways.values()) gateway.end()
  return { violation: laws.violation, virtualMs: nowMs, events: count, decisions: laws.decisions }
}

/** @returns whether something may still follow from a step */
function busyTimes(steps: readonly Step[]): (atMs: number) => boolean {
  const times = steps.map(({ atMs, durationMs }) => [atMs, atMs + durationMs + BUSY_AFTER_MS] as const)
  return nowMs => times.some(([fromMs, untilMs]) => fromMs <= nowMs && nowMs < untilMs)
}

/** Requests of clients at one gateway, whichever process runs there. */
function request(world: World, index: number, isBusy: (atMs: number) => boolean): void {
  const { scheduler, random, settings } = world
  const everyMs = settings.requestEveryMs * (isBusy(scheduler.nowMs) ? 1 : RARER)
  scheduler.atServer(scheduler.nowMs + random.between(0, 2 * everyMs), () => {
    request(world, index, isBusy)
    const gateway = world.gateways.get(index)
    if (gateway === undefined) return
    const digest = random.pick(world.digests)
    gateway.process.now(() => decide(world, gateway, digest))
  })
}

const HOME = '192.0.2.1'
const AWAY = '203.0.113.9'
/** Most keys may make most of them. */
const REQUESTS: readonly Sent[] = [
  { path: '/auth', workspaceId: null, scope: null, address: HOME },
  { path: '/auth', workspaceId: null, scope: null, address: AWAY },
  { path: '/workspaces/ws_1/files', workspaceId: 'ws_1', scope: 'files:read', address: HOME },
  { path: '/workspaces/ws_1/files', workspaceId: 'ws_1', scope: 'files:read', address: AWAY },
  { path: '/workspaces/ws_1', workspaceId: 'ws_1', scope: 'workspace:read', address: HOME },
  { path: '/workspaces/ws_2/files', workspaceId: 'ws_2', scope: 'files:read', address: HOME },
]

function decide(world: World, gateway: GatewayRun, digest: string): void {
  const beganMs = world.nowMs
  const request = world.random.pick(REQUESTS)
  const decided = (lookup: Lookup): void => {
    const answer = respond(lookup, request, gateway.process.clock.wallMs())
    const version = lookup.kind === 'found' ? lookup.grant.version : 0
    world.laws.decided({ gateway, digest, request, beganMs, answer, version })
  }
  const lookup = gateway.chain.get(digest)
  if (!(lookup instanceof Promise)) decided(lookup)
  else {
    world.scheduler.settle()
    void lookup.then(decided)
  }
}
