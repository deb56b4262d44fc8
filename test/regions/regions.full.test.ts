import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { REVOCATION_TIMING } from '../../src/domain/revocation-timing.ts'
import { quantile } from '../revocation/history.ts'
import { type FarRegion, type FleetKey, RegionFleet } from './region-fleet.ts'

const DELAYS_MS = { eu: 5, us: 80, ap: 250 }
const KEYS = 100
const AT_ONCE = 5
/** Between two requests of one client: gateways and clients share two cores. */
const SAMPLE_MS = 10
/** For the first rejection. */
const GIVE_UP_MS = 20_000
const { connectedBoundMs, disconnectedBoundMs } = REVOCATION_TIMING

interface Seen {
  readonly region: string
  /** From the commit to the first rejection. */
  readonly lagMs: number
  /** From the commit to the last request that was accepted. */
  readonly acceptedMs: number
}

async function statusOf({ gateway }: FarRegion, { secret }: FleetKey): Promise<number> {
  const response = await fetch(`${gateway.urls.gateway}/api/v1/auth`, {
    headers: { authorization: `Bearer ${secret}` },
  })
  await response.arrayBuffer()
  return response.status
}

/** Revokes a key, and asks each gateway until it rejects it. */
async function revokeAndWatch(fleet: RegionFleet, key: FleetKey, regions = fleet.regions): Promise<Seen[]> {
  for (const region of regions) expect(await statusOf(region, key)).toBe(200)
  const revocation = fleet.revoke(key)
  const seen = regions.map(async region => {
    let acceptedAtMs = 0
    const endMs = Date.now() + GIVE_UP_MS
    while (Date.now() < endMs) {
      const sentAtMs = Date.now()
      const status = await statusOf(region, key)
      if (status === 401) return { region: region.name, refusedAtMs: Date.now(), acceptedAtMs }
      if (status === 200) acceptedAtMs = sentAtMs
      await pause(SAMPLE_MS)
    }
    throw new Error(`The gateway of ${region.name} does not reject the key`)
  })
  const committedAtMs = Date.parse((await revocation).committedAt)
  return (await Promise.all(seen)).map(({ region, refusedAtMs, acceptedAtMs }) => ({
    region,
    lagMs: refusedAtMs - committedAtMs,
    acceptedMs: acceptedAtMs - committedAtMs,
  }))
}

async function revokeAll(fleet: RegionFleet, keys: readonly FleetKey[], regions = fleet.regions) {
  const seen: Seen[] = []
  for (let from = 0; from < keys.length; from += AT_ONCE) {
    const some = keys.slice(from, from + AT_ONCE)
    seen.push(...(await Promise.all(some.map(key => revokeAndWatch(fleet, key, regions)))).flat())
  }
  return seen
}

/** Requests with a good key at each gateway, all the time. @returns stops them: the statuses other than 200 */
function useGoodKey(fleet: RegionFleet, key: FleetKey): () => Promise<number[]> {
  let isOver = false
  const loads = fleet.regions.map(async region => {
    const wrong: number[] = []
    while (!isOver) {
      // 0: the gateway was stopped, at the end of a test that failed.
      const status = await statusOf(region, key).catch(() => 0)
      if (status !== 200) wrong.push(status)
      if (status === 0) break
      await pause(SAMPLE_MS)
    }
    return wrong
  })
  return async () => {
    isOver = true
    return (await Promise.all(loads)).flat()
  }
}

const lateIn = (seen: readonly Seen[], boundMs: (region: string) => number) =>
  seen.filter(({ region, acceptedMs }) => acceptedMs > boundMs(region))

/** A change that cannot be announced: three round trips may pass before heartbeats pause, and a lookup crosses the distance. */
const disconnectedBound = (region: keyof typeof DELAYS_MS) => disconnectedBoundMs + 7 * DELAYS_MS[region]
const connectedBound = (region: keyof typeof DELAYS_MS) => connectedBoundMs + DELAYS_MS[region]
const boundOf = (of: (region: keyof typeof DELAYS_MS) => number) => (region: string) =>
  of(region as keyof typeof DELAYS_MS)

test('three far regions reject revoked keys in time, and when one is cut off, empty, or the console restarts', async () => {
  const fleet = await RegionFleet.start(DELAYS_MS)
  const [good, ...keys] = await fleet.issue(KEYS + 31)
  if (good === undefined) throw new Error('No key was issued')
  const [us, ap] = [fleet.regions[1], fleet.regions[2]]
  if (us === undefined || ap === undefined) throw new Error('A region is missing')
  const stop = useGoodKey(fleet, good)

  const seen = await revokeAll(fleet, keys.slice(0, KEYS))
  for (const { name } of fleet.regions) {
    const lags = seen
      .filter(({ region }) => region === name)
      .map(({ lagMs }) => lagMs)
      .toSorted((a, b) => a - b)
    const [p50, p99, max] = [quantile(lags, 0.5), quantile(lags, 0.99), Math.max(...lags)]
    process.stdout.write(
      `${name}: ${lags.length} revocations, p50 ${p50} ms, p99 ${p99} ms, longest ${max} ms\n`,
    )
  }
  expect(lateIn(seen, boundOf(connectedBound))).toEqual([])

  us.consoleToRedis.hold('forth')
  us.consoleToRedis.hold('back')
  const partitioned = await revokeAll(fleet, keys.slice(KEYS, KEYS + 10))
  const others = partitioned.filter(({ region }) => region !== 'us')
  expect(lateIn(others, boundOf(connectedBound))).toEqual([])
  expect(lateIn(partitioned, boundOf(disconnectedBound))).toEqual([])
  us.consoleToRedis.resume()
  await fleet.untilHealthy()

  await ap.redis.kill()
  const without = await revokeAll(fleet, keys.slice(KEYS + 10, KEYS + 20))
  expect(lateIn(without, boundOf(disconnectedBound))).toEqual([])
  await ap.redis.revive()
  await fleet.untilHealthy()

  await fleet.restartConsole(async () => {
    for (const region of fleet.regions) expect(await statusOf(region, good)).toBe(200)
  })
  const after = await revokeAll(fleet, keys.slice(KEYS + 20))
  expect(lateIn(after, boundOf(disconnectedBound))).toEqual([])
  await fleet.untilHealthy()

  for (const key of keys.slice(0, 40)) {
    for (const region of fleet.regions) expect(await statusOf(region, key)).toBe(401)
  }
  expect(await stop()).toEqual([])
}, 400_000)
