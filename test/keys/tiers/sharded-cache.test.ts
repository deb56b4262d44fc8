import { expect, test } from 'vitest'
import { ShardedCache } from '../../../src/keys/tiers/memory-store.ts'
import { digestNo } from '../../support/key-records.ts'

const MAX_ENTRIES = 100_000

test('entries are divided among shards small enough to grow without a long pause', () => {
  const cache = new ShardedCache<object>(MAX_ENTRIES, () => {})
  const shards = new Set(Array.from({ length: 1_000 }, (_, number) => cache.shard(digestNo(number))))
  expect(shards.size).toBe(8)
  for (const shard of shards) expect(shard.max).toBeLessThanOrEqual(16_384)
})

test('shards together hold at most the maximum, and report each evicted entry', () => {
  let evicted = 0
  const cache = new ShardedCache<object>(MAX_ENTRIES, () => evicted++)
  for (let number = 0; number < MAX_ENTRIES * 1.2; number++) {
    const digest = digestNo(number)
    cache.shard(digest).set(digest, {})
  }
  expect(cache.size).toBe(MAX_ENTRIES)
  expect(evicted).toBe(MAX_ENTRIES * 0.2)
})

test('an entry that is replaced or deleted was not evicted', () => {
  let evicted = 0
  const shard = new ShardedCache<object>(MAX_ENTRIES, () => evicted++).shard(digestNo(1))
  shard.set(digestNo(1), {})
  shard.set(digestNo(1), {})
  shard.delete(digestNo(1))
  expect(evicted).toBe(0)
})

test('entries spread so evenly that a full cache evicts few of them early', () => {
  let evicted = 0
  const cache = new ShardedCache<object>(MAX_ENTRIES, () => evicted++)
  for (let number = 0; number < MAX_ENTRIES; number++) {
    const digest = digestNo(number)
    cache.shard(digest).set(digest, {})
  }
  expect(evicted).toBeLessThan(MAX_ENTRIES / 100)
})

test('a text that is no digest has no shard', () => {
  const cache = new ShardedCache<object>(MAX_ENTRIES, () => {})
  expect(() => cache.shard('')).toThrow(RangeError)
})
