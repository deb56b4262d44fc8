import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'vitest'
import {
  type ExcuseMs,
  excused,
  findViolations,
  lagsOf,
  quantile,
  type Revocation,
  starvedMsOf,
} from '../revocation/history.ts'
import { Load } from '../revocation/load.ts'
import { atRate, BEYOND_MS, watchKey } from '../revocation/watch-key.ts'
import { untilProven } from '../support/measured-again.ts'
import { StarvationMeter } from '../support/starvation-meter.ts'
import type { IssuedKey } from '../support/world.ts'
import type { FarRegion, RegionFleet } from './region-fleet.ts'
import type { LateChunk } from './relays.ts'

/** Between requests with a revoked key at each gateway: growing with the time since the revocation was asked for. */
const FIRST_PAUSE_MS = 10
const PAUSE_SHARE = 0.1
const WARMED_AT_ONCE = 100
/** With keys that stay good, in each region. */
const GOOD_PER_SECOND = 60

export interface Phase {
  readonly name: string
  /** How many to revoke. A phase that is measured again revokes as many others. */
  readonly keys: number
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
 * If the machine made a request late for as long as a key was accepted too late, the phase proves nothing, and is repeated with
 * other keys: processes waited for a processor between the commit and the response, or a relay was later than its delay.
 * @returns how many keys were revoked in all
 * @throws if a bound was exceeded, or the machine starved every measurement
 */
export async function revokeAndWatch(
  fleet: RegionFleet,
  good: readonly IssuedKey[],
  phase: Phase,
): Promise<number> {
  let revoked = 0
  await untilProven(phase.name, async () => {
    revoked += phase.keys
    return { result: null, starvedMs: await measure(fleet, good, phase) }
  })
  return revoked
}

/** @returns for how long the machine starved what is not proven; null if all is */
async function measure(fleet: RegionFleet, good: readonly IssuedKey[], phase: Phase): Promise<number | null> {
  await fleet.untilHealthy()
  const keys = await fleet.issue(phase.keys)
  const all = fleet.regions.map(region => ({
    region,
    load: new Load(region.gateways.map(({ urls }) => urls.gateway)),
  }))
  const revocations = new Map<string, Revocation>()
  const starvation = new StarvationMeter(fleet.pids)
  await fleet.relays.takeLate()
  try {
    for (const { load } of all) {
      for (let from = 0; from < keys.length; from += WARMED_AT_ONCE) {
        await load.askAll([...good, ...keys.slice(from, from + WARMED_AT_ONCE)])
      }
      load.keepAsking(good, GOOD_PER_SECOND)
    }
    await phase.fault?.()
    await revokeAtRate(all, keys, phase, { revocations, revoke: phase.revoke ?? (key => fleet.revoke(key)) })
    await phase.mend?.()
    await fleet.untilHealthy()
    await untilAfterBounds(fleet.regions, phase, revocations)
    for (const { load } of all) {
      for (let from = 0; from < keys.length; from += WARMED_AT_ONCE) {
        await load.askAll(keys.slice(from, from + WARMED_AT_ONCE))
      }
      await load.stop()
    }
    const late = await fleet.relays.takeLate()
    const excuseMs: ExcuseMs = (fromMs, toMs) =>
      starvation.waitedInAllMs(fromMs, toMs) + longestLateMs(late, fromMs, toMs)
    const starved = all.flatMap(watched => check(watched, phase, revocations, excuseMs))
    return starved.length === 0 ? null : Math.max(...starved)
  } finally {
    starvation.stop()
    for (const { load } of all) {
      await load.stop()
      await load.close()
    }
  }
}

function longestLateMs(late: readonly LateChunk[], fromMs: number, toMs: number): number {
  return late.reduce(
    (longest, { atMs, lateMs }) => (atMs >= fromMs && atMs <= toMs ? Math.max(longest, lateMs) : longest),
    0,
  )
}

interface Revoking {
  readonly revocations: Map<string, Revocation>
  readonly revoke: (key: IssuedKey) => Promise<Revocation>
}

async function revokeAtRate(
  all: readonly Watched[],
  keys: readonly IssuedKey[],
  { perSecond, boundMs }: Phase,
  { revocations, revoke }: Revoking,
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

/** @returns for each request that proves nothing, for how long the machine starved what it passed */
function check(
  { region, load }: Watched,
  { name, boundMs, keys }: Phase,
  revocations: ReadonlyMap<string, Revocation>,
  excuseMs: ExcuseMs,
): number[] {
  const history = { replicas: region.gateways.length, samples: load.samples, revocations }
  const bound = boundMs(region)
  const { firstRefusalMs, lastAcceptanceMs } = lagsOf(history)
  const [p50, p99, longest] = [0.5, 0.99, 1].map(share => quantile(firstRefusalMs, share))
  const violations = findViolations(history, bound ?? Number.POSITIVE_INFINITY)
  const starved = excused(violations, history, excuseMs)
  const unproven = new Set(starved)
  const found = violations.filter(
    violation => !unproven.has(violation) && !(violation.kind === 'not_shown' && bound === null),
  )
  const rejected =
    bound === null
      ? 'cut off'
      : `rejected after p50/p99/longest ${p50}/${p99}/${longest} ms, last accepted ${quantile(lastAcceptanceMs, 1)} ms after the commit, bound ${bound} ms, ${unproven.size} not proven`
  process.stdout.write(
    `${name}, ${region.name}: ${revocations.size} keys, ${load.samples.length} requests; ${rejected}\n`,
  )
  expect(found.slice(0, 5), `${name}, ${region.name}: ${found.length} wrong answers`).toEqual([])
  if (starved.length > 0) return starved.map(each => starvedMsOf(each, history, excuseMs))
  const last = load.samples.slice(-keys * region.gateways.length)
  const accepted = last.filter(sample => revocations.has(sample.key) && sample.status === 200)
  expect(accepted, `${name}, ${region.name}: accepted at the end`).toEqual([])
  return []
}
