import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { KeyGrant } from '../../../src/domain/key/key-record.ts'
import { MemoryStore } from '../../../src/keys/tiers/memory-store.ts'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import { digestNo, grantOf } from '../../support/key-records.ts'
import { metricValue } from '../../support/metric-value.ts'

const VERIFIED = { verifiedAtMs: 1_000, epoch: 1, keyServiceSkipped: false }

function memoryOf(maxEntries: number) {
  const metrics = createMetrics()
  return { metrics, memory: new MemoryStore(maxEntries, { metrics, random: () => 0 }) }
}

test('memory is bounded: the least recently used record is evicted and counted', async () => {
  const { memory, metrics } = memoryOf(2)
  memory.remember(digestNo(1), grantOf(), VERIFIED)
  memory.remember(digestNo(2), grantOf(), VERIFIED)
  memory.get(digestNo(1))
  memory.remember(digestNo(3), grantOf(), VERIFIED)
  expect([1, 2, 3].map(number => memory.get(digestNo(number)) !== undefined)).toEqual([true, false, true])
  expect(await metricValue(metrics.cacheRemovals, { cause: 'size' })).toBe(1)
  expect(await metricValue(metrics.cacheEntries)).toBe(2)
  expect(await metricValue(metrics.cacheCapacity)).toBe(2)
})

test('unknown keys that are remembered as absent evict no record', () => {
  const { memory } = memoryOf(2)
  memory.remember(digestNo(0), grantOf(), VERIFIED)
  for (let number = 1; number < 20_000; number++) memory.rememberAbsent(digestNo(number), VERIFIED)
  expect(memory.get(digestNo(0))).toMatchObject({ grant: grantOf() })
  expect(memory.get(digestNo(1))).toBeUndefined()
  expect(memory.get(digestNo(19_999))).toMatchObject({ grant: null })
})

test('the latest verification decides whether a key exists', () => {
  const { memory } = memoryOf(2)
  memory.remember(digestNo(1), grantOf(), VERIFIED)
  memory.rememberAbsent(digestNo(1), VERIFIED)
  expect(memory.get(digestNo(1))).toMatchObject({ grant: null })
  memory.remember(digestNo(1), grantOf(), VERIFIED)
  expect(memory.get(digestNo(1))).toMatchObject({ grant: grantOf() })
  // An absence from before does not come back.
  expect(memory.evictOlder(digestNo(1), 2)).toBe('evicted')
  expect(memory.get(digestNo(1))).toBeUndefined()
})

test('removals are counted by cause', async () => {
  const { memory, metrics } = memoryOf(10)
  for (let number = 1; number <= 4; number++) memory.remember(digestNo(number), grantOf(), VERIFIED)
  expect(memory.evictOlder(digestNo(1), 1)).toBe('current')
  expect(memory.evictOlder(digestNo(1), 2)).toBe('evicted')
  expect(memory.evictOlder(digestNo(1), 2)).toBe('unknown_key')
  memory.rememberAbsent(digestNo(2), VERIFIED)
  expect(await metricValue(metrics.cacheRemovals, { cause: 'invalidated' })).toBe(2)
  expect(await metricValue(metrics.cacheEntries)).toBe(2)
})

test('records with equal scopes share one list', () => {
  const { memory } = memoryOf(10)
  for (const number of [1, 2]) {
    memory.remember(digestNo(number), grantOf({ scopes: ['files:read', 'workspace:read'] }), VERIFIED)
  }
  const [first, second] = [1, 2].map(number => memory.get(digestNo(number)))
  expect(first?.grant?.scopes).toBeDefined()
  expect(first?.grant?.scopes).toBe(second?.grant?.scopes)
})

test('keys whose scopes are equal only when joined keep their own', () => {
  const { memory } = memoryOf(10)
  const lists = [['files:read', 'all'], ['files:readall'], ['files:', 'readall']]
  for (const [number, scopes] of lists.entries()) {
    memory.remember(digestNo(number), grantOf({ scopes }), VERIFIED)
  }
  expect(lists.map((_, number) => memory.get(digestNo(number))?.grant?.scopes)).toEqual(lists)
})

const instant = fc.integer({ min: -62_167_219_200_000, max: 253_402_300_799_999 })
const ascii = (pattern: RegExp) => fc.stringMatching(pattern, { size: 'max' })
/** Every grant that `decodeRecord` can return. */
const grant: fc.Arbitrary<KeyGrant> = fc.record({
  id: ascii(/^[\x21-\x7e]{1,128}$/),
  workspaceId: ascii(/^[A-Za-z0-9._~-]{1,128}$/),
  scopes: fc.uniqueArray(fc.constantFrom('files:read', 'files:write', 'workspace:read'), { maxLength: 3 }),
  hint: fc.string({ unit: 'binary', maxLength: 40 }),
  expiresAtMs: instant,
  revokedAtMs: fc.option(instant),
  suspendedAtMs: fc.option(instant),
  allowedCidrs: fc.subarray(['192.0.2.0/24', '2001:db8::/32']),
  plan: fc.option(fc.constantFrom('free', 'business')),
  version: fc.maxSafeNat(),
})

test('every grant is returned as it was stored', () => {
  const property = fc.property(fc.array(fc.tuple(fc.nat({ max: 5 }), grant), { maxLength: 30 }), entries => {
    const { memory } = memoryOf(3)
    for (const [number, grant] of entries) {
      memory.remember(digestNo(number), grant, VERIFIED)
      expect(memory.get(digestNo(number))).toMatchObject({ grant })
    }
    // The last three different ones are still in memory.
    const lasting = [...new Map(entries.toReversed().map(([number], at) => [number, at])).keys()].slice(0, 3)
    for (const number of lasting) {
      const held = entries.findLast(([other]) => other === number)?.[1]
      expect(memory.get(digestNo(number))).toMatchObject({ grant: held })
    }
  })
  fc.assert(property, { numRuns: 200 })
})

test('beyond the maximum of shared lists each key still has its own scopes', () => {
  const { memory } = memoryOf(2_000)
  const scopesOf = (number: number) => [`files:read${number}`]
  for (let number = 0; number < 1_500; number++)
    memory.remember(digestNo(number), grantOf({ scopes: scopesOf(number) }), VERIFIED)
  for (const number of [0, 999, 1_000, 1_499])
    expect(memory.get(digestNo(number))).toMatchObject({ grant: { scopes: scopesOf(number) } })
  // Shared lists are never forgotten, so their number is bounded.
  const isShared = (number: number) => {
    const scopes = scopesOf(number)
    memory.remember(digestNo(number), grantOf({ scopes }), VERIFIED)
    return memory.get(digestNo(number))?.grant?.scopes !== scopes
  }
  expect([0, 999, 1_000, 1_499].map(isShared)).toEqual([true, true, false, false])
})
