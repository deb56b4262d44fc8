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
  test('a key that was looked up answers from memory, at once and without a promise', async () => {
    const world = connectedWorld()
    world.inRedis.set(KEY, 1)
    expect(await world.get(KEY)).toMatchObject({ kind: 'found', tier: 'redis' })
    expect(world.keys.get(KEY)).toMatchObject({ kind: 'found', tier: 'memory' })
    expect(world.redis.asked).toBe(1)
    expect(world.keyService.asked).toBe(0)
  })

  test('the key service is asked only where Redis does not know, or does not answer', async () => {
    const world = connectedWorld()
    world.inKeyService.set(KEY, 1).set(OTHER, 1)
    expect(await world.get(KEY)).toMatchObject({ kind: 'found', tier: 'key_service' })
    world.redis.fails()
    expect(await world.get(OTHER)).toMatchObject({ kind: 'found', tier: 'key_service' })
  })

  test('a record is verified again when its time is over, however often it was read', async () => {
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

  test('a hot key does not expire on every replica at one moment: up to a tenth of its life is drawn off', async () => {
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

  test('a revoked key is refused from the moment that its change arrives', async () => {
    const world = connectedWorld()
    world.inRedis.set(KEY, 1)
    await world.get(KEY)
    world.inRedis.set(KEY, 2)
    world.announce(KEY, 2)
    expect(version(await world.get(KEY))).toBe(2)
    expect(await metricValue(world.metrics.invalidations, { result: 'evicted' })).toBe(1)
  })

  test('a Redis that lost a write is not believed: an older version than was announced is as good as none', async () => {
    const world = connectedWorld()
    world.inRedis.set(KEY, 1)
    world.inKeyService.set(KEY, 2)
    world.announce(KEY, 2)
    expect(await world.get(KEY)).toMatchObject({ tier: 'key_service', grant: { version: 2 } })
  })

  test('a Redis that went back to an older version than this replica has seen is not believed', async () => {
    const world = connectedWorld({ ttlMs: 1_000 })
    world.inRedis.set(KEY, 3)
    world.inKeyService.set(KEY, 3)
    await world.get(KEY)
    world.inRedis.set(KEY, 2)
    world.advanceConnected(1_000)
    expect(await world.get(KEY)).toMatchObject({ tier: 'key_service', grant: { version: 3 } })
  })

  test('a key service that answers with an older version than was announced is not believed either', async () => {
    const world = connectedWorld()
    world.inKeyService.set(KEY, 1)
    world.announce(KEY, 2)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })
})

describe('a key that nobody knows', () => {
  test('is absent only on the word of the key service, and that word is remembered for a short time', async () => {
    const world = connectedWorld({ absentTtlMs: 5_000 })
    expect(await world.get(KEY)).toEqual({ kind: 'absent', tier: 'key_service' })
    expect(world.keys.get(KEY)).toEqual({ kind: 'absent', tier: 'memory' })
    world.advanceConnected(5_000)
    await world.get(KEY)
    expect(world.keyService.asked).toBe(2)
  })

  test('is not known, rather than absent, where the key service fails', async () => {
    const world = connectedWorld()
    world.keyService.fails()
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('is not known, rather than absent, where only Redis could be asked', async () => {
    const world = connectedWorld({ tiers: ['redis'] })
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('is not known where nobody can be asked at all', async () => {
    expect(await new KeyStoreWorld({ tiers: [] }).get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('works at once when it is issued, though its absence was remembered', async () => {
    const world = connectedWorld()
    await world.get(KEY)
    world.inKeyService.set(KEY, 1)
    world.announce(KEY, 1)
    expect(await world.get(KEY)).toMatchObject({ kind: 'found' })
  })

  test('is forgotten in every memory where the key service says that it is gone', async () => {
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

describe('while disconnected', () => {
  test('a record that was trusted is asked for at the key service before it is used again', async () => {
    const world = connectedWorld()
    world.inRedis.set(KEY, 1)
    world.inKeyService.set(KEY, 2)
    await world.get(KEY)
    world.clock.advance(1_001)
    expect(await world.get(KEY)).toMatchObject({ tier: 'key_service', grant: { version: 2 } })
  })

  test('what was verified is trusted for a second, and no longer', async () => {
    const world = new KeyStoreWorld()
    world.inKeyService.set(KEY, 1)
    await world.get(KEY)
    world.clock.advance(1_000)
    expect(world.keys.get(KEY)).toMatchObject({ kind: 'found', tier: 'memory' })
    world.clock.advance(1)
    await world.get(KEY)
    expect(world.keyService.asked).toBe(2)
  })

  test('the absence of a key is remembered for a second, and no longer', async () => {
    const world = new KeyStoreWorld({ absentTtlMs: 60_000 })
    await world.get(KEY)
    world.clock.advance(1_000)
    expect(world.keys.get(KEY)).toMatchObject({ kind: 'absent', tier: 'memory' })
    world.clock.advance(1)
    await world.get(KEY)
    expect(world.keyService.asked).toBe(2)
  })

  test('Redis is asked only where the key service does not answer', async () => {
    const world = new KeyStoreWorld()
    world.inRedis.set(KEY, 1)
    expect(await world.get(KEY)).toMatchObject({ kind: 'absent', tier: 'key_service' })
    expect(world.redis.asked).toBe(0)
    world.clock.advance(1_001)
    world.keyService.fails()
    expect(await world.get(KEY)).toMatchObject({ kind: 'found', tier: 'redis' })
  })

  test('what was verified while disconnected is verified once more after the next connection', async () => {
    const world = new KeyStoreWorld()
    world.inKeyService.set(KEY, 1)
    await world.get(KEY)
    world.connect()
    await world.get(KEY)
    expect(world.redis.asked).toBe(1)
  })

  test('a process that was frozen trusts nothing on waking, before any timer of it has run', async () => {
    const world = connectedWorld()
    world.inRedis.set(KEY, 1)
    await world.get(KEY)
    world.clock.advance(60_000)
    expect(world.keys.get(KEY)).toBeInstanceOf(Promise)
  })
})

describe('while disconnected, a key service that is slow', () => {
  test('is asked anew by whoever comes more than a second later, so that the bound holds whatever its time-out', async () => {
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

  test('and answers after more than a second vouches for that request alone', async () => {
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

describe('a change without a good MAC', () => {
  test('never makes a key unavailable, whatever version it claims, and where no store answers neither', async () => {
    const world = connectedWorld({ staleMs: 0 })
    world.inRedis.set(KEY, 1)
    await world.get(KEY)
    world.allFail()
    world.forge(KEY, 2_147_483_647)
    await settled()
    expect(await world.get(KEY)).toMatchObject({ kind: 'found', tier: 'memory', grant: { version: 1 } })
    world.allAnswer()
    world.forge(KEY, 2_147_483_647)
    await settled()
    expect(version(await world.get(KEY))).toBe(1)
  })

  test('has the key looked up again, while requests are answered from memory', async () => {
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

  test('does nothing for a key that is not held', async () => {
    const world = connectedWorld()
    world.inRedis.set(KEY, 1)
    world.forge(KEY, 1)
    await settled()
    expect([world.redis.asked, world.keyService.asked]).toEqual([0, 0])
  })

  test('a flood of them, over many keys, costs a bounded number of lookups', async () => {
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

  test('does not have a lookup that is under way asked again, nor keep its answer from being used', async () => {
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
  test('to a gateway that has the newer record does not make it unavailable, though it never saw the message', async () => {
    const world = connectedWorld({ staleMs: 0 })
    world.inRedis.set(KEY, 3)
    await world.get(KEY)
    world.allFail()
    for (const version of [1, 2, 3]) world.announce(KEY, version)
    expect(world.keys.get(KEY)).toMatchObject({ kind: 'found', grant: { version: 3 } })
  })
})

test('keys that were verified at one moment while disconnected are not verified again at one moment', async () => {
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

describe('a key service that is behind what was announced', () => {
  test('is not believed at first: it may read from a replica that lags', async () => {
    const world = connectedWorld({ tiers: ['key_service'] })
    world.inKeyService.set(KEY, 1)
    world.announce(KEY, 2)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
    world.inKeyService.set(KEY, 2)
    expect(version(await world.get(KEY))).toBe(2)
  })

  test('nor where it told itself of what it knows no more', async () => {
    const world = new KeyStoreWorld({ tiers: ['key_service'], staleMs: 0 })
    world.inKeyService.set(KEY, 2)
    await world.get(KEY)
    world.clock.advance(1_001)
    world.inKeyService.set(KEY, 1)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('is believed after a minute: its database was restored from a backup, and there is no other truth', async () => {
    const world = connectedWorld({ tiers: ['key_service'] })
    world.inKeyService.set(KEY, 1)
    world.announce(KEY, 2)
    world.advanceConnected(60_000)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
    world.advanceConnected(1)
    expect(version(await world.get(KEY))).toBe(1)
  })

  test('and a cache that is behind never is', async () => {
    const world = connectedWorld({ tiers: ['redis'] })
    world.inRedis.set(KEY, 1)
    world.announce(KEY, 2)
    world.advanceConnected(3_600_000)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })
})

describe('while nobody answers', () => {
  async function verifiedThenSilent(staleMs: number): Promise<KeyStoreWorld> {
    const world = connectedWorld({ staleMs, ttlMs: 30_000 })
    world.inRedis.set(KEY, 1)
    await world.get(KEY)
    world.allFail()
    return world
  }

  test('a record that was good when last verified is used, up to its bound', async () => {
    const world = await verifiedThenSilent(300_000)
    world.clock.advance(300_000)
    expect(await world.get(KEY)).toMatchObject({ kind: 'found', tier: 'memory' })
    expect(await metricValue(world.metrics.lookups, { tier: 'memory', result: 'stale' })).toBe(1)
    world.clock.advance(1)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('to be used so does not lengthen the time', async () => {
    const world = await verifiedThenSilent(10_000)
    for (let second = 0; second < 10; second++) {
      world.clock.advance(1_000)
      expect(await world.get(KEY)).toMatchObject({ kind: 'found' })
    }
    world.clock.advance(1)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('a bound of 0 uses nothing', async () => {
    const world = await verifiedThenSilent(0)
    world.clock.advance(1_001)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('a record of which a change arrived is not used: no store can verify it', async () => {
    const world = await verifiedThenSilent(300_000)
    world.announce(KEY, 2)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('that there is no such key is never answered from an old memory', async () => {
    const world = connectedWorld()
    await world.get(KEY)
    world.allFail()
    world.clock.advance(6_000)
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })

  test('a record is verified as soon as somebody answers again', async () => {
    const world = await verifiedThenSilent(300_000)
    world.clock.advance(60_000)
    await world.get(KEY)
    world.inKeyService.set(KEY, 2)
    world.allAnswer()
    expect(version(await world.get(KEY))).toBe(2)
  })

  test('a tier that throws, against its word, is one that fails', async () => {
    const world = connectedWorld()
    world.redis.throws()
    world.keyService.throws()
    expect(await world.get(KEY)).toEqual({ kind: 'unknown' })
  })
})

describe('with a breaker round each tier', () => {
  const breaker = { failures: 3, openMs: 500 }
  const NOTHING_IS_LOST = { staleMs: 300_000, breaker }

  test('a Redis and a key service that hang cost a few lookups their deadline; then what is stale comes at once', async () => {
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

  test('a stale bound of 0 holds: what comes at once then is that nobody can say', async () => {
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

  test('the stale bound is counted from the last verification, and no probe in vain lengthens it', async () => {
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

  test('a probe finds out that Redis is back, and the next lookup is answered by it', async () => {
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

  test('while disconnected and the key service is skipped, what Redis says is trusted for a quarter of a second only', async () => {
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
    // The key service is back, and knows of a revocation; the probe that finds that out is on its way.
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
  test('of one key are one question', async () => {
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

  test('are bounded: beyond that a key is not known, and the bound frees itself', async () => {
    const world = connectedWorld({ maxInFlight: 1 })
    world.redis.stalls()
    world.inRedis.set(KEY, 1)
    const first = world.get(KEY)
    expect(await world.get(OTHER)).toEqual({ kind: 'unknown' })
    world.redis.release()
    await first
    world.redis.answers()
    expect(await world.get(OTHER)).toMatchObject({ kind: 'absent' })
  })
})

describe('a lookup that races a change', () => {
  test('answers with what is true after the change, and never puts the older record into memory', async () => {
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

  test('is not waited for by whoever comes after the change', async () => {
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
  })

  test('does not remember an absence that was true before a key was issued', async () => {
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

  test('begins again if the gateway was disconnected meanwhile, then at the key service', async () => {
    const world = connectedWorld()
    world.redis.stalls()
    world.inRedis.set(KEY, 1)
    world.inKeyService.set(KEY, 2)
    const early = world.get(KEY)
    world.invalidations.lost()
    world.redis.release()
    expect(await early).toMatchObject({ tier: 'key_service', grant: { version: 2 } })
  })

  test('uses an answer of the key service although the gateway was disconnected meanwhile, and keeps it as stale', async () => {
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
    // It is no proof for the time since: asked again at once, and believed only for want of anybody.
    expect(await world.get(KEY)).toMatchObject({ tier: 'key_service' })
    expect(world.keyService.asked).toBe(2)
    world.clock.advance(1_001)
    world.allFail()
    expect(await world.get(KEY)).toMatchObject({ kind: 'found', tier: 'memory' })
  })

  test('keeps the authority’s word for want of anybody, also where nobody has asked a second time', async () => {
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

  test('is given up after three tries, as not known', async () => {
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

test('each lookup is counted once by what memory did for it', async () => {
  const world = connectedWorld()
  world.inRedis.set(KEY, 1)
  await world.get(KEY)
  await world.get(KEY)
  await world.get(OTHER)
  await world.get(OTHER)
  const counts = ['hit', 'miss', 'negative'].map(result =>
    metricValue(world.metrics.lookups, { tier: 'memory', result }),
  )
  expect(await Promise.all(counts)).toEqual([1, 2, 1])
  expect(await metricValue(world.metrics.lookups, { tier: 'key_service', result: 'negative' })).toBe(1)
})
