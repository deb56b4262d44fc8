import { describe, expect, test } from 'vitest'
import { outOfOrder } from '../support/chaos-tier.ts'
import { digestNo, grantOf } from '../support/key-records.ts'
import { KeyStoreWorld } from '../support/key-store-world.ts'
import { metricValue } from '../support/metric-value.ts'
import { settled } from '../support/until.ts'

const KEY = digestNo(1)
const OTHER = digestNo(2)

function connectedWorld(options: ConstructorParameters<typeof KeyStoreWorld>[0] = {}): KeyStoreWorld {
  const world = new KeyStoreWorld(options)
  world.connect()
  return world
}

function version(lookup: unknown): number {
  return (lookup as { grant: { version: number } }).grant.version
}

describe('while connected', () => {
  test('a known key is returned from memory, at once and without a promise', async () => {
    const world = connectedWorld()
    world.inRedis.set(KEY, 1)
    expect(await world.get(KEY)).toMatchObject({ kind: 'found', tier: 'redis' })
    expect(world.keys.get(KEY)).toMatchObject({ kind: 'found', tier: 'memory' })
    expect(world.redis.asked).toBe(1)
    expect(world.keyService.asked).toBe(0)
  })

  test('the key service is asked only if Redis has no record or fails', async () => {
    const world = connectedWorld()
    world.inKeyService.set(KEY, 1).set(OTHER, 1)
    expect(await world.get(KEY)).toMatchObject({ kind: 'found', tier: 'key_service' })
    world.redis.fails()
    expect(await world.get(OTHER)).toMatchObject({ kind: 'found', tier: 'key_service' })
  })

  test('a record is verified again when its time to live is over, after any number of reads', async () => {
    const world = connectedWorld({ ttlMs: 30_000 })
    world.inRedis.set(KEY, 1)
    await world.get(KEY)
    for (let read = 0; read < 30; read++) {
      world.advanceConnected(1_000)
      await world.get(KEY)
    }
    expect(world.redis.asked).toBe(2)
  })

  test('a time to live of 0 verifies at each request', async () => {
    const world = connectedWorld({ ttlMs: 0 })
    world.inRedis.set(KEY, 1)
    await world.get(KEY)
    await world.get(KEY)
    expect(world.redis.asked).toBe(2)
  })

  test('a busy key does not expire on every replica at one moment: jitter shortens its life by up to a tenth', async () => {
    const world = connectedWorld({ ttlMs: 30_000, random: () => 1 })
    world.inRedis.set(KEY, 1)
    await world.get(KEY)
    world.advanceConnected(26_999)
    await world.get(KEY)
    expect(world.redis.asked).toBe(1)
    world.advanceConnected(1)
    await world.get(KEY)
    expect(world.redis.asked).toBe(2)
  })

  test('a revoked key is rejected from the moment that its change arrives', async () => {
    const world = connectedWorld()
    world.inRedis.set(KEY, 1)
    await world.get(KEY)
    world.inRedis.set(KEY, 2)
    world.announce(KEY, 2)
    expect(version(await world.get(KEY))).toBe(2)
    expect(await metricValue(world.metrics.invalidations, { result: 'evicted' })).toBe(1)
  })

  test('a Redis that lost a write is not trusted: a version older than the announced one is a miss', async () => {
    const world = connectedWorld()
    world.inRedis.set(KEY, 1)
    world.inKeyService.set(KEY, 2)
    world.announce(KEY, 2)
    expect(await world.get(KEY)).toMatchObject({ tier: 'key_service', grant: { version: 2 } })
  })

  test('a version from Redis older than the one in memory is not trusted', async () => {
    const world = connectedWorld({ ttlMs: 1_000 })
    world.inRedis.set(KEY, 3)
    world.inKeyService.set(KEY, 3)
    await world.get(KEY)
    world.inRedis.set(KEY, 2)
    world.advanceConnected(1_000)
    expect(await world.get(KEY)).toMatchObject({ tier: 'key_service', grant: { version: 3 } })
  })

  test('a version from the key service older than the announced one is not trusted either', async () => {
    const world = connectedWorld()
    world.inKeyService.set(KEY, 1)
    world.announce(KEY, 2)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })
})

describe('once a signing secret is no longer in use', () => {
  test('memory vouches for no key, until a store has been asked again', async () => {
    const world = connectedWorld()
    world.inRedis.set(KEY, 1)
    await world.get(KEY)
    await world.get(OTHER)
    expect([KEY, OTHER].map(digest => world.keys.holds(digest))).toEqual([true, true])
    world.keys.forgetAll()
    expect([KEY, OTHER].map(digest => world.keys.holds(digest))).toEqual([false, false])
    expect(await world.get(KEY)).toMatchObject({ kind: 'found', tier: 'redis' })
    expect(world.keys.holds(KEY)).toBe(true)
  })

  test('a lookup that began before is answered and not remembered, also if it has to begin again', async () => {
    for (const change of [false, true]) {
      const world = connectedWorld()
      world.inRedis.set(KEY, 1)
      world.redis.stalls()
      const lookup = world.get(KEY)
      world.keys.forgetAll()
      if (change) world.announce(KEY, 1)
      world.redis.answers()
      world.redis.release()
      expect(await lookup).toMatchObject({ kind: 'found', tier: 'redis' })
      expect(world.keys.holds(KEY)).toBe(false)
    }
  })
})

describe('an unknown key', () => {
  test('is absent only if the key service says so, and that is remembered for a short time', async () => {
    const world = connectedWorld({ absentTtlMs: 5_000 })
    expect(await world.get(KEY)).toEqual({ kind: 'absent', tier: 'key_service' })
    expect(world.keys.get(KEY)).toEqual({ kind: 'absent', tier: 'memory' })
    world.advanceConnected(5_000)
    await world.get(KEY)
    expect(world.keyService.asked).toBe(2)
  })

  test('is unknown, not absent, if the key service fails', async () => {
    const world = connectedWorld()
    world.keyService.fails()
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('is unknown, not absent, if there is only Redis', async () => {
    const world = connectedWorld({ tiers: ['redis'] })
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('is unknown without any store', async () => {
    expect(await new KeyStoreWorld({ tiers: [] }).get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('works at once when it is issued, although its absence was remembered', async () => {
    const world = connectedWorld()
    await world.get(KEY)
    world.inKeyService.set(KEY, 1)
    world.announce(KEY, 1)
    expect(await world.get(KEY)).toMatchObject({ kind: 'found' })
  })

  test('is removed from memory if the key service says that it no longer exists', async () => {
    const world = connectedWorld({ ttlMs: 1_000 })
    world.inKeyService.set(KEY, 1)
    await world.get(KEY)
    world.inKeyService.delete(KEY)
    world.advanceConnected(1_000)
    expect(await world.get(KEY)).toMatchObject({ kind: 'absent' })
    world.advanceConnected(10_000)
    world.allFail()
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })
})

/** What a lookup returns is used for a second, and then the key service is asked again. */
async function expectASecondOfTrust(world: KeyStoreWorld, kind: 'found' | 'absent'): Promise<void> {
  await world.get(KEY)
  world.clock.advance(1_000)
  expect(world.keys.get(KEY)).toMatchObject({ kind, tier: 'memory' })
  world.clock.advance(1)
  await world.get(KEY)
  expect(world.keyService.asked).toBe(2)
}

describe('while disconnected', () => {
  test('a trusted record is verified at the key service before it is used again', async () => {
    const world = connectedWorld()
    world.inRedis.set(KEY, 1)
    world.inKeyService.set(KEY, 2)
    await world.get(KEY)
    world.clock.advance(1_001)
    expect(await world.get(KEY)).toMatchObject({ tier: 'key_service', grant: { version: 2 } })
  })

  test('a verified record is trusted for a second at most', async () => {
    const world = new KeyStoreWorld()
    world.inKeyService.set(KEY, 1)
    await expectASecondOfTrust(world, 'found')
  })

  test('the absence of a key is remembered for a second at most', async () => {
    const world = new KeyStoreWorld({ absentTtlMs: 60_000 })
    await expectASecondOfTrust(world, 'absent')
  })

  test('Redis is asked only if the key service does not respond', async () => {
    const world = new KeyStoreWorld()
    world.inRedis.set(KEY, 1)
    expect(await world.get(KEY)).toMatchObject({ kind: 'absent', tier: 'key_service' })
    expect(world.redis.asked).toBe(0)
    world.clock.advance(1_001)
    world.keyService.fails()
    expect(await world.get(KEY)).toMatchObject({ kind: 'found', tier: 'redis' })
  })

  test('a record verified while disconnected is verified again after the next connection', async () => {
    const world = new KeyStoreWorld()
    world.inKeyService.set(KEY, 1)
    await world.get(KEY)
    world.connect()
    await world.get(KEY)
    expect(world.redis.asked).toBe(1)
  })

  test('a process that was frozen trusts no record when it resumes, before any timer has run', async () => {
    const world = connectedWorld()
    world.inRedis.set(KEY, 1)
    await world.get(KEY)
    world.clock.advance(60_000)
    expect(world.keys.get(KEY)).toBeInstanceOf(Promise)
  })
})

describe('while disconnected, with a key service that fails', () => {
  test('a record of Redis is trusted for a second: the key service is asked each time', async () => {
    const world = new KeyStoreWorld()
    world.keyService.fails()
    world.inRedis.set(KEY, 1)
    await expectASecondOfTrust(world, 'found')
  })

  test.each([
    ['within a second is not asked again', 1_000, { kind: 'unknown' }],
    ['earlier is asked again: this process may have been suspended', 1_001, { grant: { version: 2 } }],
  ])('one that failed %s', async (_when, ms, lookup) => {
    const world = new KeyStoreWorld()
    world.keyService.fails()
    world.redis.stalls()
    const early = world.get(KEY)
    await settled()
    world.clock.advance(ms)
    world.keyService.answers()
    world.inKeyService.set(KEY, 2)
    world.redis.release(outOfOrder())
    expect(await early).toMatchObject(lookup)
  })
})

describe('while disconnected, a slow key service', () => {
  test('that responds after two seconds is asked again, and no older record of Redis is used instead', async () => {
    const world = new KeyStoreWorld()
    world.inRedis.set(KEY, 1)
    world.inKeyService.set(KEY, 2)
    world.keyService.stalls()
    const early = world.get(KEY)
    world.clock.advance(2_000)
    world.keyService.answers()
    world.keyService.release()
    expect(await early).toMatchObject({ tier: 'key_service', grant: { version: 2 } })
    expect([world.keyService.asked, world.redis.asked]).toEqual([2, 0])
  })

  test('is asked again for a request more than a second later, so that the bound holds with any timeout', async () => {
    const world = new KeyStoreWorld()
    world.inKeyService.set(KEY, 1)
    world.keyService.stalls()
    const early = world.get(KEY)
    world.clock.advance(1_000)
    const inTime = world.get(KEY)
    expect(world.keyService.asked).toBe(1)
    world.clock.advance(1)
    world.inKeyService.set(KEY, 2)
    const late = world.get(KEY)
    expect(world.keyService.asked).toBe(2)
    world.keyService.release()
    world.keyService.release()
    expect([await early, await inTime, await late].map(version)).toEqual([1, 1, 2])
  })

  test('that responds after more than a second decides only that request', async () => {
    const world = new KeyStoreWorld()
    world.inKeyService.set(KEY, 1)
    world.keyService.stalls()
    const early = world.get(KEY)
    world.clock.advance(1_500)
    world.keyService.release()
    expect(version(await early)).toBe(1)
    world.keyService.answers()
    await world.get(KEY)
    expect(world.keyService.asked).toBe(2)
  })
})

describe('a change without a valid MAC', () => {
  test('never makes a key unavailable, with any version, also if no store responds', async () => {
    const world = connectedWorld({ staleMs: 0 })
    world.inRedis.set(KEY, 1)
    await world.get(KEY)
    world.allFail()
    world.forge(KEY, 2_147_483_647)
    await settled()
    expect(await world.get(KEY)).toMatchObject({ kind: 'found', tier: 'memory', grant: { version: 1 } })
    // Memory was still fresh.
    expect(await metricValue(world.metrics.lookups, { tier: 'memory', result: 'stale' })).toBe(0)
    world.allAnswer()
    world.forge(KEY, 2_147_483_647)
    await settled()
    expect(version(await world.get(KEY))).toBe(1)
  })

  test('causes a lookup of the key, while requests use memory', async () => {
    const world = connectedWorld()
    world.inRedis.set(KEY, 1)
    await world.get(KEY)
    world.redis.stalls()
    world.inRedis.set(KEY, 2)
    world.forge(KEY, 1)
    await settled()
    expect(world.redis.waiting).toHaveLength(1)
    expect(version(world.keys.get(KEY))).toBe(1)
    world.redis.release()
    await settled()
    expect(version(world.keys.get(KEY))).toBe(2)
    expect(world.redis.asked).toBe(2)
  })

  test('has no effect for a key that is not in memory', async () => {
    const world = connectedWorld()
    world.inRedis.set(KEY, 1)
    world.forge(KEY, 1)
    await settled()
    expect([world.redis.asked, world.keyService.asked]).toEqual([0, 0])
  })

  test('in a flood for many keys causes a bounded number of lookups', async () => {
    const world = connectedWorld()
    const digests = Array.from({ length: 100 }, (_, number) => digestNo(number))
    for (const digest of digests) world.inRedis.set(digest, 1)
    for (const digest of digests) await world.get(digest)
    for (let round = 0; round < 10; round++) {
      for (const digest of digests) world.forge(digest, round)
      await settled()
    }
    expect(world.redis.asked).toBe(100 + 20)
  })

  test('neither repeats a lookup in flight nor prevents the use of its result', async () => {
    const world = connectedWorld()
    world.inRedis.set(KEY, 1)
    world.redis.stalls()
    const answer = world.get(KEY)
    await settled()
    for (let time = 0; time < 5; time++) world.forge(KEY, 9)
    world.redis.release()
    expect(version(await answer)).toBe(1)
    expect(world.redis.asked).toBe(1)
  })
})

describe('a genuine change that is replayed', () => {
  test('to a gateway with a newer record does not make the key unavailable', async () => {
    const world = connectedWorld({ staleMs: 0 })
    world.inRedis.set(KEY, 3)
    await world.get(KEY)
    world.allFail()
    for (const version of [1, 2, 3]) world.announce(KEY, version)
    expect(world.keys.get(KEY)).toMatchObject({ kind: 'found', grant: { version: 3 } })
  })
})

test('keys verified together while disconnected are not verified again at one moment', async () => {
  let drawn = 0
  const world = new KeyStoreWorld({ random: () => (drawn++ % 10) / 10 })
  const digests = Array.from({ length: 100 }, (_, number) => digestNo(number))
  for (const digest of digests) world.inKeyService.set(digest, 1)
  const askedPerTick: number[] = []
  for (let tick = 0; tick < 11; tick++) {
    const before = world.keyService.asked
    for (const digest of digests) await world.get(digest)
    askedPerTick.push(world.keyService.asked - before)
    world.clock.advance(tick === 0 ? 700 : 34)
  }
  expect(askedPerTick[0]).toBe(100)
  expect(Math.max(...askedPerTick.slice(1))).toBeLessThanOrEqual(20)
  expect(world.keyService.asked).toBe(200)
})

describe('a key service that is behind the announced version', () => {
  test('is not trusted at first: it may read from a lagging replica', async () => {
    const world = connectedWorld({ tiers: ['key_service'] })
    world.inKeyService.set(KEY, 1)
    world.announce(KEY, 2)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
    world.inKeyService.set(KEY, 2)
    expect(version(await world.get(KEY))).toBe(2)
  })

  test('is not trusted either if it announced a record that it no longer returns', async () => {
    const world = new KeyStoreWorld({ tiers: ['key_service'], staleMs: 0 })
    world.inKeyService.set(KEY, 2)
    await world.get(KEY)
    world.clock.advance(1_001)
    world.inKeyService.set(KEY, 1)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('is trusted after a minute: its database was restored from a backup', async () => {
    const world = connectedWorld({ tiers: ['key_service'] })
    world.inKeyService.set(KEY, 1)
    world.announce(KEY, 2)
    world.advanceConnected(60_000)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
    world.advanceConnected(1)
    expect(version(await world.get(KEY))).toBe(1)
  })

  test('but a Redis that is behind is never trusted', async () => {
    const world = connectedWorld({ tiers: ['redis'] })
    world.inRedis.set(KEY, 1)
    world.announce(KEY, 2)
    world.advanceConnected(3_600_000)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })
})

describe('while no store responds', () => {
  async function verifiedThenSilent(staleMs: number): Promise<KeyStoreWorld> {
    const world = connectedWorld({ staleMs, ttlMs: 30_000 })
    world.inRedis.set(KEY, 1)
    await world.get(KEY)
    world.allFail()
    return world
  }

  test('a record that was valid when last verified is used up to the stale limit', async () => {
    const world = await verifiedThenSilent(300_000)
    world.clock.advance(300_000)
    expect(await world.get(KEY)).toMatchObject({ kind: 'found', tier: 'memory' })
    expect(await metricValue(world.metrics.lookups, { tier: 'memory', result: 'stale' })).toBe(1)
    world.clock.advance(1)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('that use does not extend the limit', async () => {
    const world = await verifiedThenSilent(10_000)
    for (let second = 0; second < 10; second++) {
      world.clock.advance(1_000)
      expect(await world.get(KEY)).toMatchObject({ kind: 'found' })
    }
    world.clock.advance(1)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('with a limit of 0 no stale record is used', async () => {
    const world = await verifiedThenSilent(0)
    world.clock.advance(1_001)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('a record for which a change arrived is not used: no store can verify it', async () => {
    const world = await verifiedThenSilent(300_000)
    world.announce(KEY, 2)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('an expired absence in memory is never used', async () => {
    const world = connectedWorld()
    await world.get(KEY)
    world.allFail()
    world.clock.advance(6_000)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('a record is verified as soon as a store responds again', async () => {
    const world = await verifiedThenSilent(300_000)
    world.clock.advance(60_000)
    await world.get(KEY)
    world.inKeyService.set(KEY, 2)
    world.allAnswer()
    expect(version(await world.get(KEY))).toBe(2)
  })

  test('a tier that throws, against its contract, counts as failed', async () => {
    const world = connectedWorld()
    world.redis.throws()
    world.keyService.throws()
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })
})

describe('with a circuit breaker for each tier', () => {
  const breaker = { failures: 3, openMs: 500 }
  const NOTHING_IS_LOST = { staleMs: 300_000, breaker }

  test('if Redis and key service hang, a few lookups time out; then stale records are returned at once', async () => {
    const world = connectedWorld(NOTHING_IS_LOST)
    for (let number = 0; number < 10; number++) world.inRedis.set(digestNo(number), 1)
    for (let number = 0; number < 10; number++) await world.get(digestNo(number))
    world.redis.stalls()
    world.keyService.stalls()
    world.clock.advance(30_000)
    const before = world.redis.asked
    let waited = 0
    for (let number = 0; number < 10; number++) {
      const answer = world.get(digestNo(number))
      await settled()
      if (world.redis.waiting.length + world.keyService.waiting.length > 0) waited++
      while (world.redis.waiting.length + world.keyService.waiting.length > 0) {
        for (const tier of [world.redis, world.keyService])
          if (tier.waiting.length > 0) tier.release(outOfOrder())
        await settled()
      }
      expect(await answer).toMatchObject({ kind: 'found', tier: 'memory' })
      world.clock.advance(20)
    }
    expect([waited, world.redis.asked - before, world.keyService.asked]).toEqual([3, 3, 3])
    expect(await world.get(digestNo(99))).toEqual({ kind: 'unknown' })
  })

  test('with a stale limit of 0 the result is unknown, at once', async () => {
    const world = connectedWorld({ staleMs: 0, breaker })
    world.inRedis.set(KEY, 1)
    await world.get(KEY)
    world.allFail()
    world.clock.advance(30_000)
    for (let asked = 0; asked < 10; asked++) {
      expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
      world.clock.advance(20)
    }
    expect([world.redis.asked, world.keyService.asked]).toEqual([4, 3])
  })

  test('the stale limit counts from the last verification, and a failed probe does not extend it', async () => {
    const world = connectedWorld({ staleMs: 10_000, breaker })
    world.inRedis.set(KEY, 1)
    await world.get(KEY)
    world.allFail()
    for (let halfSeconds = 0; halfSeconds < 20; halfSeconds++) {
      world.clock.advance(500)
      for (const tier of world.breakers) tier.watch()
      expect(await world.get(KEY)).toMatchObject({ kind: 'found', tier: 'memory' })
    }
    world.clock.advance(1)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('a probe detects that Redis is back, and the next lookup uses it', async () => {
    const world = connectedWorld(NOTHING_IS_LOST)
    world.redis.fails()
    for (let number = 10; number < 15; number++) {
      await world.get(digestNo(number))
      world.clock.advance(20)
    }
    world.redis.answers()
    world.inRedis.set(KEY, 1)
    world.advanceConnected(500)
    for (const tier of world.breakers) tier.watch()
    await settled()
    expect(await world.get(KEY)).toMatchObject({ kind: 'found', tier: 'redis' })
  })

  test('while disconnected with the key service skipped, a record of Redis is trusted for 250 ms', async () => {
    const world = new KeyStoreWorld(NOTHING_IS_LOST)
    world.keyService.fails()
    world.inRedis.set(KEY, 1).set(OTHER, 1)
    for (let number = 10; number < 13; number++) {
      world.clock.advance(20)
      await world.get(digestNo(number))
    }
    expect(await world.get(KEY)).toMatchObject({ kind: 'found', tier: 'redis' })
    world.clock.advance(250)
    expect(world.keys.get(KEY)).toMatchObject({ kind: 'found', tier: 'memory' })
    // The key service is back with a revocation; the probe is in flight.
    world.keyService.answers()
    world.inKeyService.set(KEY, 2)
    world.clock.advance(1)
    expect(version(await world.get(KEY))).toBe(1)
    world.clock.advance(249)
    for (const tier of world.breakers) tier.watch()
    await settled()
    world.clock.advance(2)
    expect(await world.get(KEY)).toMatchObject({ tier: 'key_service', grant: { version: 2 } })
  })
})

describe('lookups at the same time', () => {
  test('of one key share one lookup', async () => {
    const world = connectedWorld()
    world.redis.stalls()
    world.inRedis.set(KEY, 1)
    const answers = Promise.all([world.get(KEY), world.get(KEY), world.get(KEY)])
    expect(world.redis.waiting).toHaveLength(1)
    world.redis.release()
    expect((await answers).map(version)).toEqual([1, 1, 1])
    expect(await metricValue(world.metrics.lookups, { tier: 'memory', result: 'coalesced' })).toBe(2)
  })

  test('of different keys do not wait for each other', async () => {
    const world = connectedWorld()
    world.redis.stalls()
    const first = world.get(KEY)
    world.redis.answers()
    world.inRedis.set(OTHER, 1)
    expect(await world.get(OTHER)).toMatchObject({ kind: 'found' })
    world.redis.release(outOfOrder())
    await first
  })

  test('are limited: beyond the limit the result is unknown, until lookups end', async () => {
    const world = connectedWorld({ maxInFlight: 1 })
    world.redis.stalls()
    world.inRedis.set(KEY, 1)
    const first = world.get(KEY)
    const beyond = world.get(OTHER)
    expect(world.redis.asked).toBe(1)
    expect(await beyond).toEqual({ kind: 'unknown' })
    world.redis.release()
    await first
    world.redis.answers()
    expect(await world.get(OTHER)).toMatchObject({ kind: 'absent' })
  })
})

describe('a lookup that races a change', () => {
  test('returns the record after the change, and never stores the older record', async () => {
    const world = connectedWorld()
    world.redis.stalls()
    world.inRedis.set(KEY, 1)
    const early = world.get(KEY)
    world.inRedis.set(KEY, 2)
    world.announce(KEY, 2)
    world.redis.answers()
    world.redis.release({ kind: 'found', grant: grantOf({ version: 1 }) })
    expect(version(await early)).toBe(2)
    expect(version(world.keys.get(KEY))).toBe(2)
  })

  test('is not joined by requests after the change', async () => {
    const world = connectedWorld()
    world.redis.stalls()
    const early = world.get(KEY)
    world.inRedis.set(KEY, 2)
    world.announce(KEY, 2)
    world.redis.answers()
    expect(version(await world.get(KEY))).toBe(2)
    world.redis.release({ kind: 'found', grant: grantOf({ version: 1 }) })
    expect(version(await early)).toBe(2)
    expect(version(world.keys.get(KEY))).toBe(2)
    // The early one uses the record that the later one has stored.
    expect(world.redis.asked).toBe(2)
  })

  test('ends without disturbing a later one, which further requests join', async () => {
    const world = connectedWorld()
    world.redis.stalls()
    const early = world.get(KEY)
    world.announce(KEY, 2)
    const late = world.get(KEY)
    world.inKeyService.set(KEY, 2)
    world.redis.release({ kind: 'found', grant: grantOf({ version: 1 }) })
    await settled()
    const joining = world.get(KEY)
    expect(world.redis.asked).toBe(2)
    world.redis.release({ kind: 'found', grant: grantOf({ version: 2 }) })
    expect((await Promise.all([early, late, joining])).map(version)).toEqual([2, 2, 2])
  })

  test('does not store an absence from before the key was issued', async () => {
    const world = connectedWorld()
    world.keyService.stalls()
    const early = world.get(KEY)
    await settled()
    world.inKeyService.set(KEY, 1)
    world.announce(KEY, 1)
    world.keyService.answers()
    world.keyService.release({ kind: 'absent' })
    expect(version(await early)).toBe(1)
  })

  test('starts again, at the key service, if the gateway was disconnected meanwhile', async () => {
    const world = connectedWorld()
    world.redis.stalls()
    world.inRedis.set(KEY, 1)
    world.inKeyService.set(KEY, 2)
    const early = world.get(KEY)
    world.invalidations.lost()
    world.redis.release()
    expect(await early).toMatchObject({ tier: 'key_service', grant: { version: 2 } })
  })

  test('uses a result of the key service although the gateway was disconnected meanwhile, and stores it as stale', async () => {
    const world = connectedWorld()
    world.keyService.stalls()
    world.inKeyService.set(KEY, 1)
    const early = world.get(KEY)
    await settled()
    world.invalidations.lost()
    world.keyService.answers()
    world.keyService.release()
    expect(await early).toMatchObject({ tier: 'key_service', grant: { version: 1 } })
    expect(world.keyService.asked).toBe(1)
    // It may be outdated since: verified again at once, and used only if no store responds.
    expect(await world.get(KEY)).toMatchObject({ tier: 'key_service' })
    expect(world.keyService.asked).toBe(2)
    world.clock.advance(1_001)
    world.allFail()
    expect(await world.get(KEY)).toMatchObject({ kind: 'found', tier: 'memory' })
  })

  test('keeps the result of the key service as stale, also without a second request', async () => {
    const world = connectedWorld()
    world.keyService.stalls()
    world.inKeyService.set(KEY, 1)
    const early = world.get(KEY)
    await settled()
    world.invalidations.lost()
    world.keyService.answers()
    world.keyService.release()
    await early
    world.allFail()
    expect(await world.get(KEY)).toMatchObject({ kind: 'found', tier: 'memory' })
  })

  test('starts again if no store responded and the gateway was disconnected meanwhile', async () => {
    const world = connectedWorld()
    world.redis.fails()
    world.keyService.stalls()
    const early = world.get(KEY)
    await settled()
    world.invalidations.lost()
    world.keyService.answers()
    world.inKeyService.set(KEY, 2)
    world.keyService.release(outOfOrder())
    expect(await early).toMatchObject({ tier: 'key_service', grant: { version: 2 } })
  })

  test('ends as unknown after three attempts', async () => {
    const world = connectedWorld()
    world.redis.stalls()
    world.inRedis.set(KEY, 1)
    const early = world.get(KEY)
    for (let change = 2; change <= 4; change++) {
      await settled()
      world.announce(KEY, change)
      world.redis.release()
    }
    expect(await early).toEqual({ kind: 'unknown' })
    expect(world.redis.asked).toBe(3)
  })
})

test('each lookup is counted once, by its result in memory', async () => {
  const world = connectedWorld()
  world.inRedis.set(KEY, 1)
  await world.get(KEY)
  await world.get(KEY)
  await world.get(KEY)
  await world.get(OTHER)
  await world.get(OTHER)
  const counts = ['hit', 'miss', 'negative'].map(result =>
    metricValue(world.metrics.lookups, { tier: 'memory', result }),
  )
  expect(await Promise.all(counts)).toEqual([2, 2, 1])
  expect(await metricValue(world.metrics.lookups, { tier: 'key_service', result: 'negative' })).toBe(1)
})

test('a key without a MAC that is not looked up, because its client has used up its lookups, is limited', async () => {
  const world = connectedWorld({ unsigned: { perSecond: 1, perAddress: 1 } })
  expect(await world.get(KEY, '192.0.2.1')).toMatchObject({ kind: 'absent' })
  expect(await world.get(OTHER, '192.0.2.1')).toEqual({ kind: 'limited' })
})
