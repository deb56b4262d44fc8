import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'vitest'
import type { Fleet, Revoked } from '../support/fleet.ts'
import { untilProven } from '../support/measured-again.ts'
import { StarvationMeter } from '../support/starvation-meter.ts'
import type { IssuedKey } from '../support/world.ts'
import {
  type ExcuseMs,
  excused,
  findViolations,
  type History,
  lagsOf,
  quantile,
  REFUSALS,
  type Revocation,
  starvedMsOf,
} from './history.ts'
import { Load } from './load.ts'
import { atRate, BEYOND_MS, watchKey } from './watch-key.ts'

/** Request intervals of a watched key: short until its first rejection, to time it, then increasing. */
const PROBE_MS = 5
const REPROBE_MS = 150
const BACKGROUND_PER_SECOND = 150

export interface Scenario {
  readonly name: string
  readonly boundMs: number
  /** Keys to revoke, each watched on each replica. */
  readonly keys: number
  readonly revocationsPerSecond: number
  /** The code with which a key is rejected afterwards; `key_revoked` if left out. */
  readonly refusedAs?: string
  /** Starts when every replica has all keys in memory and is under load. */
  readonly fault?: (fleet: Fleet) => void | Promise<void>
  /** Replaces `fleet.revoke`. */
  readonly revoke?: (key: IssuedKey) => Promise<Revoked>
  /** Runs during the fault, after all revocations have been watched. */
  readonly meanwhile?: (fleet: Fleet, revoked: readonly Revoked[]) => void | Promise<void>
  readonly mend?: (fleet: Fleet) => void | Promise<void>
}

export interface Outcome {
  readonly history: History
  readonly excuseMs: ExcuseMs
  readonly revoked: readonly Revoked[]
}

/**
 * Revokes keys under load during a fault, repairs it, and checks what all clients saw against the guarantee. Other keys are
 * in use all the time, and none of them may be rejected.
 *
 * If the machine kept a process from running for as long as a key was accepted too late, the run proves nothing, and is
 * repeated with other keys.
 * @throws if a bound was exceeded, or the machine starved every run
 */
export function run(fleet: Fleet, good: readonly IssuedKey[], scenario: Scenario): Promise<Outcome> {
  return untilProven(scenario.name, async () => {
    const outcome = await measure(fleet, good, scenario)
    const { history, excuseMs } = outcome
    const violations = findViolations(history, scenario.boundMs)
    const starved = excused(violations, history, excuseMs)
    const unproven = new Set(starved)
    expect(summary(violations.filter(violation => !unproven.has(violation)))).toEqual({})
    const starvedMs = starved.map(each => starvedMsOf(each, history, excuseMs))
    return { result: outcome, starvedMs: starvedMs.length === 0 ? null : Math.max(...starvedMs) }
  })
}

async function measure(fleet: Fleet, good: readonly IssuedKey[], scenario: Scenario): Promise<Outcome> {
  await fleet.untilHealthy()
  const keys = await fleet.issue(scenario.keys)
  const load = new Load(fleet.replicas.map(({ urls }) => urls.gateway))
  const revocations = new Map<string, Revocation>()
  const starvation = new StarvationMeter(fleet.pids)
  let mend = async () => {
    mend = async () => {}
    await scenario.mend?.(fleet)
  }
  try {
    await load.askAll([...good, ...keys])
    load.keepAsking(good, BACKGROUND_PER_SECOND)
    await scenario.fault?.(fleet)
    const revoked = await revokeAndWatch(fleet, load, keys, scenario, revocations)
    await scenario.meanwhile?.(fleet, revoked)
    await mend()
    await fleet.untilHealthy()
    // The last requests must be sent after the bound.
    const committedAtMs = Math.max(...[...revocations.values()].map(each => each.committedAtMs))
    await pause(Math.max(0, committedAtMs + scenario.boundMs + BEYOND_MS - Date.now()))
    await load.askAll([...good, ...keys])
    await load.stop()
    const { refusedAs = 'key_revoked' } = scenario
    const history = { replicas: fleet.replicas.length, samples: load.samples, revocations, refusedAs }
    report(scenario, history)
    return { history, revoked, excuseMs: (fromMs, toMs) => starvation.waitedMs(fromMs, toMs) }
  } finally {
    await load.stop()
    await load.close()
    starvation.stop()
    await mend()
  }
}

async function revokeAndWatch(
  fleet: Fleet,
  load: Load,
  keys: readonly IssuedKey[],
  { revocationsPerSecond, boundMs, revoke = key => fleet.revoke(key) }: Scenario,
  revocations: Map<string, Revocation>,
): Promise<Revoked[]> {
  return atRate(keys, revocationsPerSecond, async key => {
    const endAtMs = () => (revocations.get(key.id)?.committedAtMs ?? Number.POSITIVE_INFINITY) + boundMs
    const watches = load.replicas.map(replica =>
      watchKey({
        send: () => load.send(key, replica),
        endAtMs,
        pauseMs: ({ isRejected, elapsedMs }) =>
          isRejected ? Math.max(REPROBE_MS, elapsedMs / 2) : Math.max(PROBE_MS, elapsedMs / 10),
      }),
    )
    const revoked = await revoke(key)
    revocations.set(key.id, revoked)
    await Promise.all(watches)
    return revoked
  })
}

/** The first few violations of each kind. */
function summary(violations: ReturnType<typeof findViolations>): Record<string, unknown> {
  const byKind = Map.groupBy(violations, ({ kind }) => kind)
  return Object.fromEntries(
    [...byKind].map(([kind, all]) => [kind, { count: all.length, first: all.slice(0, 3) }]),
  )
}

function report({ name, boundMs }: Scenario, history: History): void {
  const ofReplica = Array.from({ length: history.replicas }, (_, replica) => {
    const { firstRefusalMs: lag } = lagsOf(history, replica)
    return [0.5, 0.99, 1].map(share => quantile(lag, share)).join('/')
  })
  const { lastAcceptanceMs } = lagsOf(history)
  const failed = history.samples.filter(({ status }) => status !== 200 && !REFUSALS.has(status)).length
  process.stdout.write(
    [
      `revocation, ${name}: ${history.revocations.size} keys, ${history.samples.length} requests, ${failed} failed;`,
      `rejected after p50/p99/max ms per replica ${ofReplica.join(' ')};`,
      `accepted until ${quantile(lastAcceptanceMs, 1)} ms (bound ${boundMs})\n`,
    ].join(' '),
  )
}
