import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Fleet } from '../support/fleet.ts'
import { untilGood } from '../support/measured-again.ts'
import { scrape, scrapeOne, sumOf } from '../support/scrape.ts'
import { until } from '../support/until.ts'
import type { IssuedKey } from '../support/world.ts'
import { quantile } from './history.ts'
import { Load } from './load.ts'

const KEYS = 1_000
const PER_SECOND = 2_000
const LOOKUPS = 'postern_key_cache_lookups_total'
const CONNECTED = 'postern_key_invalidation_connected'
/** Lookups of a replica that is disconnected for less than the time between two scrapes. */
const UNSEEN = 100
/** Allowance for a shared machine. */
const PATIENCE_MS = 40_000

/** A thousand keys in use under load, while Redis loses its data and while the gateways are disconnected. */
export function describeThousandKeys(): void {
  describe('with a thousand keys in use at full load', () => {
    let fleet: Fleet
    let keys: readonly IssuedKey[]
    let load: Load

    beforeAll(async () => {
      // A short TTL, so that every key is looked up again within the test.
      fleet = await Fleet.start(3, { POSTERN_KEYS_MEMORY_TTL_SECONDS: '3' })
      keys = await fleet.issue(KEYS)
      load = new Load(fleet.replicas.map(({ urls }) => urls.gateway))
      await load.askAll(keys)
    })
    afterAll(async () => {
      await load.close()
      await fleet.stop()
    })

    /** Number of lookups of each replica in a tier, with any of the results. */
    function lookupsIn(tier: 'redis' | 'key_service', ...results: string[]): Promise<number[]> {
      const labels = results.length === 0 ? [''] : results.map(result => `result="${result}"`)
      return Promise.all(
        fleet.replicas.map(async ({ urls }) => {
          const metrics = await scrape(urls.ops)
          const counts = labels.map(label => sumOf(metrics, LOOKUPS, `tier="${tier}"`, label))
          return counts.reduce((sum, count) => sum + count)
        }),
      )
    }

    async function areConnected(): Promise<boolean> {
      const values = await Promise.all(fleet.replicas.map(({ urls }) => scrapeOne(urls.ops, CONNECTED)))
      return values.every(value => value === 1)
    }

    /** Counts calls to the console from now on, of any size. */
    function countCalls(): () => number {
      let calls = 0
      for (const { toKeyService } of fleet.replicas) {
        toKeyService.onPiece = (direction, bytes) => {
          if (direction === 'forth' && bytes.includes(' /internal/v1/')) calls++
        }
      }
      return () => calls
    }

    /** Sends requests with all keys during a fault until the condition holds. @returns failures and cost */
    async function underLoad(name: string, begin: () => Promise<unknown>, end: () => Promise<boolean>) {
      load.samples.length = 0
      load.keepAsking(keys, PER_SECOND)
      await until(
        'every key has been used at every replica',
        () => load.samples.length > KEYS * fleet.replicas.length,
      )
      const [keyService, calls, startMs] = [await lookupsIn('key_service'), countCalls(), performance.now()]
      const before = load.samples.length
      try {
        await begin()
        await until('the condition holds', end, PATIENCE_MS)
      } finally {
        await load.stop()
      }
      const seen = load.samples.slice(before)
      const seconds = (performance.now() - startMs) / 1000
      const lookups = (await lookupsIn('key_service')).map(
        (count, replica) => count - (keyService[replica] ?? 0),
      )
      const tookMs = seen.map(({ sentAtMs, answeredAtMs }) => answeredAtMs - sentAtMs).sort((a, b) => a - b)
      const failed = seen.filter(({ status }) => status !== 200)
      process.stdout.write(
        `${name}: ${KEYS} keys, ${Math.round(seen.length / seconds)} requests/s for ${seconds.toFixed(1)} s, ` +
          `${failed.length} failed, p50/p99/max ${[0.5, 0.99, 1].map(share => quantile(tookMs, share)).join('/')} ms; ` +
          `key service lookups per replica ${lookups.join(' ')}, in ${calls()} calls\n`,
      )
      return { failed, lookups, calls: calls() }
    }

    /** Empties Redis under load. @returns failures, and the lookups of each replica */
    async function emptyUnderLoad() {
      const redisLookups = (result?: string) => lookupsIn('redis', ...(result === undefined ? [] : [result]))
      const countAll = () => Promise.all([redisLookups(), redisLookups('miss'), redisLookups('error')])
      const [before, missesBefore, errorsBefore] = await countAll()
      let wasConnected = true
      const { failed, lookups } = await underLoad(
        'FLUSHALL at load',
        () => fleet.redis.admin.flushall(),
        // Each key is looked up in Redis first.
        async () => {
          wasConnected &&= await areConnected()
          return (await redisLookups()).every((count, replica) => count - (before[replica] ?? 0) > 2 * KEYS)
        },
      )
      const [, misses, errors] = await countAll()
      const replicas = lookups.map((asked, replica) => ({
        asked,
        missed: (misses[replica] ?? 0) - (missesBefore[replica] ?? 0),
        timedOut: (errors[replica] ?? 0) - (errorsBefore[replica] ?? 0),
      }))
      return { failed, wasConnected, replicas }
    }

    test('a Redis that loses all data under load fails no request and costs one lookup per key and replica', async () => {
      const most = ({ missed, timedOut }: { missed: number; timedOut: number }) => missed + timedOut + UNSEEN
      // A loaded machine delays heartbeats and Redis; lookups for these reasons are not due to the lost data. One that
      // disconnects a replica between two scrapes is not seen: then it is emptied again.
      const isGood = ({ wasConnected, replicas }: Awaited<ReturnType<typeof emptyUnderLoad>>) =>
        !wasConnected || replicas.every(replica => replica.asked <= most(replica))
      const results = await untilGood(emptyUnderLoad, isGood)
      for (const { failed, replicas } of results) {
        expect(failed).toEqual([])
        for (const { missed } of replicas) expect(missed).toBeLessThanOrEqual(KEYS)
      }
      expect(results.filter(isGood)).toHaveLength(1)
    })

    test('three disconnected replicas with a thousand keys in use do not overload the console', async () => {
      const before = await lookupsIn('key_service')
      const { failed, lookups, calls } = await underLoad(
        'Redis stopped at load',
        () => fleet.redis.kill(),
        async () =>
          (await lookupsIn('key_service')).every(
            (count, replica) => count - (before[replica] ?? 0) > 3 * KEYS,
          ),
      )
      await fleet.redis.revive()
      expect(failed).toEqual([])
      expect(calls).toBeLessThan(lookups.reduce((sum, count) => sum + count))
    })
  })
}
