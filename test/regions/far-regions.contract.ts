import { expect, test } from 'vitest'
import { REVOCATION_TIMING } from '../../src/domain/revocation-timing.ts'
import { MEASUREMENTS } from '../support/measured-again.ts'
import type { Listening } from '../support/postern-process.ts'
import type { IssuedKey } from '../support/world.ts'
import { type FarRegion, RegionFleet } from './region-fleet.ts'
import { type SingleRedis, singleRedis } from './region-redis.ts'
import { type Phase, revokeAndWatch } from './watched-revocations.ts'

/** One way. */
const DELAYS_MS = { eu: 5, us: 80, ap: 250 }
const KEYS_IN_FAULTS = 6
const PER_SECOND = 10
/** Of the slow region: one chunk in twenty stalls. */
const SLOW = { delayMs: 400, stallEvery: 20 }
const { connectedBoundMs, disconnectedBoundMs } = REVOCATION_TIMING

type Region = FarRegion<SingleRedis>

const connected = ({ delayMs }: { readonly delayMs: number }) => connectedBoundMs + delayMs
/** A change that cannot be announced: heartbeats go on for two round trips, and the last one is on its way once. */
const disconnected = ({ delayMs }: { readonly delayMs: number }) => disconnectedBoundMs + 5 * delayMs
const inOne = (one: Region, boundMs: number | null) => (region: Pick<Region, 'name' | 'delayMs'>) =>
  region.name === one.name ? boundMs : connected(region)

async function statusAt({ urls }: Listening, key: IssuedKey | undefined): Promise<number> {
  const headers = { authorization: `Bearer ${key?.secret}` }
  return (await fetch(`${urls.gateway}/api/v1/auth`, { headers })).status
}

/** Which regions each fault comes to, one after the other. */
export interface FarFaults {
  readonly keys: number
  readonly unannounced: readonly (keyof typeof DELAYS_MS)[]
  readonly cutOff: readonly (keyof typeof DELAYS_MS)[]
}

export function testFarRegions({ keys, unannounced, cutOff }: FarFaults): void {
  test('three far regions reject revoked keys in time, also while one is slow, cut off or without Redis, or the console restarts', async () => {
    const regions = Object.entries(DELAYS_MS).map(([name, delayMs]) => [
      name,
      { delayMs, redis: singleRedis },
    ])
    const fleet = await RegionFleet.start<SingleRedis>({ regions: Object.fromEntries(regions), gateways: 3 })
    const good = await fleet.issue(10)
    const revoke = async (phase: Omit<Phase, 'keys' | 'perSecond'>, count = KEYS_IN_FAULTS) =>
      revokeAndWatch(fleet, good, { keys: count, perSecond: PER_SECOND, ...phase })

    await revoke({ name: 'connected', boundMs: connected }, keys)
    for (const name of unannounced) await revoke(withoutAnnouncements(fleet.region(name)))
    for (const name of cutOff) {
      await revoke(cutOffWith(fleet.region(name), await fleet.issue(MEASUREMENTS)))
    }
    await revoke(slowed(fleet.region('us')))
    const ap = fleet.region('ap')
    await revoke({
      name: 'the Redis of ap killed, and empty afterwards',
      boundMs: inOne(ap, disconnected(ap)),
      fault: () => ap.redis.server.kill(),
      mend: () => ap.redis.server.revive(),
    })
    await revoke({
      name: 'the console killed and started again',
      boundMs: disconnected,
      fault: async () => {
        await fleet.stopConsole(0)
        await fleet.startConsole(0)
      },
    })
    expect(fleet.console(0).process.log.filter(line => Number(line['level']) >= 50)).toEqual([])
  }, 900_000)
}

type Fault = Omit<Phase, 'keys' | 'perSecond'>

function withoutAnnouncements(region: Region): Fault {
  const { fromConsole } = region.redis
  return {
    name: `no connection between the console and the Redis of ${region.name}`,
    boundMs: inOne(region, disconnected(region)),
    fault: () => fromConsole.hold(),
    mend: () => fromConsole.resume(),
  }
}

/** @param unseen keys that no gateway has seen, one for each measurement */
function cutOffWith(region: Region, unseen: readonly IssuedKey[]): Fault {
  const links = [region.redis.fromConsole, region.toKeyService]
  let measurements = 0
  return {
    name: `${region.name} cut off`,
    boundMs: inOne(region, null),
    fault: () => Promise.all(links.map(link => link.hold())),
    async mend() {
      const key = unseen[measurements++]
      // It uses the records of its Redis.
      for (const gateway of region.gateways) expect(await statusAt(gateway, key)).toBe(200)
      await Promise.all(links.map(link => link.resume()))
    },
  }
}

function slowed(region: Region): Fault {
  const links = [region.redis.fromConsole, region.toKeyService]
  return {
    name: `${region.name} slow`,
    boundMs: inOne(region, disconnected(SLOW)),
    fault: () => Promise.all(links.map(link => link.slow(SLOW.delayMs, SLOW.stallEvery))),
    mend: () => Promise.all(links.map(link => link.slow(region.delayMs))),
  }
}
