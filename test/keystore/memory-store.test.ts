import { expect, test } from 'vitest'
import { MemoryStore, type Moment } from '../../src/keystore/memory-store.ts'
import { createMetrics } from '../../src/observability/metrics.ts'
import { digestNo, grantOf } from '../support/key-records.ts'
import { metricValue } from '../support/metric-value.ts'

const NOW: Moment = { nowMs: 1_000, hearing: true, epoch: 1 }
const VERIFIED = { verifiedAtMs: 1_000, epoch: 1 }

function memoryOf(maxEntries: number) {
  const metrics = createMetrics()
  const settings = { maxEntries, ttlMs: 30_000, absentTtlMs: 5_000 }
  return { metrics, memory: new MemoryStore(settings, { metrics, random: () => 0 }) }
}

test('memory is bounded: the record that was used longest ago makes room, and is counted', async () => {
  const { memory, metrics } = memoryOf(2)
  memory.remember(digestNo(1), grantOf(), VERIFIED)
  memory.remember(digestNo(2), grantOf(), VERIFIED)
  memory.fresh(digestNo(1), NOW)
  memory.remember(digestNo(3), grantOf(), VERIFIED)
  expect([1, 2, 3].map(number => memory.fresh(digestNo(number), NOW) !== null)).toEqual([true, false, true])
  expect(await metricValue(metrics.cacheRemovals, { cause: 'size' })).toBe(1)
  expect(await metricValue(metrics.cacheEntries)).toBe(2)
  expect(await metricValue(metrics.cacheCapacity)).toBe(2)
})

test('junk keys that are remembered as absent push no good record out', () => {
  const { memory } = memoryOf(2)
  memory.remember(digestNo(0), grantOf(), VERIFIED)
  for (let number = 1; number < 20_000; number++) memory.rememberAbsent(digestNo(number), VERIFIED)
  expect(memory.fresh(digestNo(0), NOW)).toMatchObject({ kind: 'found' })
  expect(memory.fresh(digestNo(1), NOW)).toBeNull()
  expect(memory.fresh(digestNo(19_999), NOW)).toMatchObject({ kind: 'absent' })
})

test('the latest verification decides whether a key is there', () => {
  const { memory } = memoryOf(2)
  memory.remember(digestNo(1), grantOf(), VERIFIED)
  memory.rememberAbsent(digestNo(1), VERIFIED)
  expect(memory.fresh(digestNo(1), NOW)).toMatchObject({ kind: 'absent' })
  memory.remember(digestNo(1), grantOf(), VERIFIED)
  expect(memory.fresh(digestNo(1), NOW)).toMatchObject({ kind: 'found' })
})

test('what leaves memory is counted by its cause', async () => {
  const { memory, metrics } = memoryOf(10)
  for (let number = 1; number <= 4; number++) memory.remember(digestNo(number), grantOf(), VERIFIED)
  expect(memory.evict(digestNo(1))).toBe(true)
  expect(memory.evict(digestNo(1))).toBe(false)
  expect(memory.stale(digestNo(2), 1_000_000, 10)).toBeNull()
  memory.flush()
  const causes = ['invalidated', 'ttl', 'flush'].map(cause => metricValue(metrics.cacheRemovals, { cause }))
  expect(await Promise.all(causes)).toEqual([1, 1, 2])
  expect(await metricValue(metrics.cacheEntries)).toBe(0)
})

test('records of equal scopes share one list', () => {
  const { memory } = memoryOf(10)
  for (const number of [1, 2]) {
    memory.remember(digestNo(number), grantOf({ scopes: ['files:read', 'workspace:read'] }), VERIFIED)
  }
  const [first, second] = [1, 2].map(number => memory.fresh(digestNo(number), NOW))
  expect(first?.kind === 'found' && second?.kind === 'found').toBe(true)
  if (first?.kind === 'found' && second?.kind === 'found')
    expect(first.grant.scopes).toBe(second.grant.scopes)
})
