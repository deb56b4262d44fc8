import type { Redis } from 'ioredis'
import type { RedisNetwork } from '../../../src/redis/clients.ts'
import type { Process } from './process.ts'
import { SimulatedRedis } from './redis-client.ts'
import type { RedisSite } from './redis-site.ts'
import { regionOf } from './settings.ts'

/** How a process finds and reaches the Redis of each region. */
export function redisNetworkOf(process: Process, sites: readonly RedisSite[]): RedisNetwork {
  const siteOf = (region: number): RedisSite => {
    const site = sites[region]
    if (site === undefined) throw new Error(`No region ${region}`)
    return site
  }
  return {
    findServer: settings => siteOf(regionOf(settings)).finderOf(process),
    createPrimaryQuery: settings => siteOf(regionOf(settings)).primaryQueryOf(process),
    // The options of the client are those of `safeOptions`, which the simulated one has built in.
    createServerClient(settings, find) {
      const site = siteOf(regionOf(settings))
      const { random } = site.parts
      return new SimulatedRedis({ process, site, random, find, settings }) as unknown as Redis
    },
  }
}
