import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'vitest'
import {
  type ExcuseMs,
  excused,
  findViolations,
  lagsOf,
  quantile,
  type Revocation,
} from '../revocation/history.ts'
import { Load } from '../revocation/load.ts'
import { atRate, BEYOND_MS, watchKey } from '../revocation/watch-key.ts'
import { StarvationMeter } from '../support/starvation-meter.ts'
import type { IssuedKey } from '../support/world.ts'
import type { FarRegion, RegionFleet } from './region-fleet.ts'

/** Between requests with a revoked key at each gateway: growing with the time since the revocation was asked for. */
const FIRST_PAUSE_MS = 10
const PAUSE_SHARE = 0.1
const WARMED_AT_ONCE = 100
/** With keys that stay good, in each region. */
const GOOD_PER_SECOND = 60

export interface Phase {
  readonly name: string
  readonly keys: readonly IssuedKey[]
  readonly perSecond: number
  /** The time after a commit from which a region rejects the key; null if it cannot learn of it during the fault. */
  readonly boundMs: (region: FarRegion) => number | null
  /** Begins when every gateway has all keys in memory and is under load. */
  readonly fault?: () => Promise<unknown>
  readonly mend?: () => Promise<unknown>
  /** Replaces `fleet.revoke`. */
  readonly revoke?: (key: IssuedKey) => Promise<Revocation>
}

interface Watched {
  readonly region: FarRegion
  readonly load: Load
}

/**
 * Revokes keys under load during a fault, ends the fault, and checks what all clients saw: no request is accepted that was sent
 * after the bound, and every good key is accepted all the time.
 *
 * A request that was accepted too late is excused by what was measured of the machine, if that is as long: the time for which one of the
 * processes waited for a processor between the commit and the response, and the longest by which a relay was later than its delay.
 */
export async function revokeAndWatch(
  fleet: RegionFleet,
  good: readonly IssuedKey[],
  phase: Phase,
): Promise<void> {
  const all = fleet.regions.map(region => ({
    region,
    load: new Load(region.gateways.map(({ urls }) => urls.gateway)),
  }))
  const revocations = new Map<string, Revocation>()
  const starvation = new StarvationMeter(fleet.pids)
  await fleet.relays.takeLongestLateMs()
  try {
    for (const { load } of all) {
      for (let from = 0; from < phase.keys.length; from += WARMED_AT_ONCE) {
        await load.askAll([...good, ...phase.keys.slice(from, from + WARMED_AT_ONCE)])
      }
      load.keepAsking(good, GOOD_PER_SECOND)
    }
    await phase.fault?.()
    await revokeAtRate(fleet, all, phase, revocations)
    await phase.mend?.()
    await fleet.untilHealthy()
    await untilAfterBounds(fleet.regions, phase, revocations)
    for (const { load } of all) {
      for (let from = 0; from < phase.keys.length; from += WARMED_AT_ONCE) {
        await load.askAll(phase.keys.slice(from, from + WARMED_AT_ONCE))
      }
      await load.stop()
    }
    const relayLateMs = await fleet.relays.takeLongestLateMs()
    const excuseMs: ExcuseMs = (fromMs, toMs) => starvation.waitedMs(fromMs, toMs) + relayLateMs
    for (const watched of all) check(watched, phase, revocations, excuseMs)
  } finally {
    starvation.stop()
    for (const { load } of all) {
      await load.stop()
      await load.close()
    }
  }
}

async function revokeAtRate(
  fleet: RegionFleet,
  all: readonly Watched[],
  { keys, perSecond, boundMs, revoke = key => fleet.revoke(key) }: Phase,
  revocations: Map<string, Revocation>,
): Promise<void> {
  await atRate(keys, perSecond, async key => {
    const watches = all.flatMap(({ region, load }) => {
      const bound = boundMs(region)
      if (bound === null) return []
      const endAtMs = () => (revocations.get(key.id)?.committedAtMs ?? Number.POSITIVE_INFINITY) + bound
      return load.replicas.map(gateway =>
        watchKey({
          send: () => load.send(key, gateway),
          endAtMs,
          pauseMs: ({ isRejected, elapsedMs }) =>
            isRejected ? bound / 2 : Math.max(FIRST_PAUSE_MS, elapsedMs * PAUSE_SHARE),
        }),
      )
    })
    revocations.set(key.id, await revoke(key))
    await Promise.all(watches)
  })
}

async function untilAfterBounds(
  regions: readonly FarRegion[],
  { boundMs }: Phase,
  revocations: ReadonlyMap<string, Revocation>,
): Promise<void> {
  const longestMs = Math.max(...regions.map(region => boundMs(region) ?? 0))
  const lastMs = Math.max(...[...revocations.values()].map(({ committedAtMs }) => committedAtMs))
  await pause(Math.max(0, lastMs + longestMs + BEYOND_MS - Date.now()))
}

function check(
  { region, load }: Watched,
  { name, boundMs, keys }: Phase,
  revocations: ReadonlyMap<string, Revocation>,
  excuseMs: ExcuseMs,
): void {
  const history = { replicas: region.gateways.length, samples: load.samples, revocations }
  const bound = boundMs(region)
  const { firstRefusalMs, lastAcceptanceMs } = lagsOf(history)
  const [p50, p99, longest] = [0.5, 0.99, 1].map(share => quantile(firstRefusalMs, share))
  const violations = findViolations(history, bound ?? Number.POSITIVE_INFINITY)
  const byMachine = new Set(excused(violations, history, excuseMs))
  const found = violations.filter(
    violation => !byMachine.has(violation) && !(violation.kind === 'not_shown' && bound === null),
  )
  const rejected =
    bound === null
      ? 'cut off'
      : `rejected after p50/p99/longest ${p50}/${p99}/${longest} ms, last accepted ${quantile(lastAcceptanceMs, 1)} ms after the commit, bound ${bound} ms, ${byMachine.size} excused`
  process.stdout.write(
    `${name}, ${region.name}: ${revocations.size} keys, ${load.samples.length} requests; ${rejected}\n`,
  )
  expect(found.slice(0, 5), `${name}, ${region.name}: ${found.length} wrong answers`).toEqual([])
  const last = load.samples.slice(-keys.length * region.gateways.length)
  expect(last.filter(sample => revocations.has(sample.key) && sample.status !== 401)).toEqual([])
}
