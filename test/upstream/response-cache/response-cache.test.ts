import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import {
  type CachedResponse,
  matchesValidators,
  ResponseCache,
  refreshedHeaders,
  toCachedResponse,
} from '../../../src/upstream/response-cache/response-cache.ts'
import { metricSum } from '../../support/forwarding-app.ts'

const BOUND = 1_000_000
const metrics = createMetrics()
const cacheOf = (bytes = BOUND) => new ResponseCache(bytes, metrics)

function responseOf(bytes: number, upstream: Record<string, string> = {}): CachedResponse {
  const freshness = { ageMs: 0, lifetimeMs: 1000 }
  return toCachedResponse({
    upstream,
    passing: {},
    body: Buffer.alloc(bytes),
    freshness,
    requestedAtMs: 0,
    nowMs: 0,
  })
}

test('the cache never exceeds its capacity', async () => {
  const cache = cacheOf()
  for (let index = 0; index < 10_000; index++) {
    cache.store(`ws_${index % 7}`, `key ${index}`, responseOf(index % 3000))
    expect(cache.bytes).toBeLessThanOrEqual(BOUND)
  }
  expect(cache.bytes).toBeGreaterThan(BOUND * 0.9)
  expect(await metricSum(metrics, 'postern_response_cache_bytes', {})).toBe(cache.bytes)
  cache.clear()
  expect(cache.bytes).toBe(0)
})

test('metrics show bytes and capacity', async () => {
  const own = createMetrics()
  const cache = new ResponseCache(BOUND, own)
  cache.store('ws', 'key', responseOf(1000))
  // The response, its key, and the list of its workspace.
  expect(cache.bytes).toBe(responseOf(1000).size + 'key'.length + 2000)
  expect(await metricSum(own, 'postern_response_cache_bytes', {})).toBe(cache.bytes)
  expect(await metricSum(own, 'postern_response_cache_capacity_bytes', {})).toBe(BOUND)
})

test('a response of exactly the share of a workspace is stored, one byte more is not', () => {
  const cache = cacheOf()
  const bytes = BOUND / 4 - responseOf(0).size - 'key'.length
  cache.store('ws', 'key', responseOf(bytes))
  expect(cache.find('ws', 'key')).toBeDefined()
  cache.store('ws', 'key', responseOf(bytes + 1))
  expect(cache.find('ws', 'key')).toBeUndefined()
})

test('with full capacity the oldest response of the oldest workspace goes, and no other', () => {
  const cache = cacheOf(20_000)
  for (const workspace of ['ws_a', 'ws_b']) cache.store(workspace, 'key', responseOf(500))
  cache.store('ws_b', 'other', responseOf(0))
  for (const workspace of ['ws_c', 'ws_d']) cache.store(workspace, 'key', responseOf(3000))
  const kept = [
    ...['ws_b', 'ws_c', 'ws_d'].map(workspace => cache.find(workspace, 'key')),
    cache.find('ws_b', 'other'),
  ]
  expect([cache.find('ws_a', 'key'), kept.includes(undefined)]).toEqual([undefined, false])
})

test('a cache that is exactly full keeps all', () => {
  const each = 2000 + responseOf(0).size + 'key'.length
  const cache = cacheOf(4 * each)
  const workspaces = ['ws_a', 'ws_b', 'ws_c', 'ws_d']
  for (const workspace of workspaces) cache.store(workspace, 'key', responseOf(0))
  expect(workspaces.filter(workspace => cache.find(workspace, 'key') === undefined)).toEqual([])
  expect(cache.bytes).toBe(4 * each)
})

test('dropping one response leaves the others of its workspace, and the last takes its list with it', () => {
  const cache = cacheOf()
  cache.drop('unknown', 'key')
  for (const key of ['one', 'other']) cache.store('ws', key, responseOf(10))
  cache.drop('ws', 'one')
  expect([cache.find('ws', 'one'), cache.find('ws', 'other') !== undefined]).toEqual([undefined, true])
  cache.drop('ws', 'other')
  expect(cache.bytes).toBe(0)
})

test('the byte count is correct after any sequence of stores, replacements and drops', () => {
  const step = fc.record({
    workspace: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
    key: fc.constantFrom('1', '2', '3'),
    bytes: fc.option(fc.nat(40_000), { nil: null }),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), steps => {
      const cache = cacheOf(100_000)
      for (const { workspace, key, bytes } of steps) {
        if (bytes === null) cache.drop(workspace, key)
        else cache.store(workspace, key, responseOf(bytes))
        expect(cache.bytes).toBeGreaterThanOrEqual(0)
        expect(cache.bytes).toBeLessThanOrEqual(100_000)
      }
      for (const { workspace, key } of steps) cache.drop(workspace, key)
      expect(cache.bytes).toBe(0)
    }),
  )
})

test('a workspace with many responses evicts its own only', () => {
  const cache = cacheOf()
  const response = responseOf(1000)
  for (const quiet of ['ws_a', 'ws_b', 'ws_c']) cache.store(quiet, 'key', response)
  for (let index = 0; index < 10_000; index++) cache.store('ws_loud', `key ${index}`, responseOf(1000))
  for (const quiet of ['ws_a', 'ws_b', 'ws_c']) expect(cache.find(quiet, 'key')).toBe(response)
  expect(cache.bytes).toBeLessThan(BOUND / 3)
})

test('the least recently used response is evicted first', () => {
  const cache = cacheOf()
  for (let index = 0; index < 500; index++) {
    cache.store('ws', `key ${index}`, responseOf(1000))
    cache.find('ws', 'key 0')
  }
  expect(cache.find('ws', 'key 0')).toBeDefined()
  expect(cache.find('ws', 'key 1')).toBeUndefined()
})

test('a response that exceeds the share of a workspace is not stored, and drops the earlier one', () => {
  const cache = cacheOf()
  cache.store('ws', 'key', responseOf(10))
  cache.store('ws', 'key', responseOf(BOUND / 2))
  expect(cache.find('ws', 'key')).toBeUndefined()
  expect(cache.bytes).toBe(0)
})

test('a response of one workspace is not found for another', () => {
  const cache = cacheOf()
  cache.store('ws_a', 'key', responseOf(10))
  expect(cache.find('ws_b', 'key')).toBeUndefined()
  expect(cache.find('', 'ws_akey')).toBeUndefined()
})

const DAY = 'Wed, 21 Oct 2026 07:28:00 GMT'
const LATER = 'Wed, 21 Oct 2026 07:28:01 GMT'
test.each([
  [{}, false],
  [{ 'if-none-match': '"7"' }, true],
  [{ 'if-none-match': 'W/"7"' }, true],
  [{ 'if-none-match': '"6", "7"' }, true],
  [{ 'if-none-match': '*' }, true],
  [{ 'if-none-match': '"77"' }, false],
  [{ 'if-none-match': '7' }, false],
  [{ 'if-none-match': '' }, false],
  [{ 'if-modified-since': DAY }, true],
  [{ 'if-modified-since': LATER }, true],
  [{ 'if-modified-since': 'Wed, 21 Oct 2026 07:27:59 GMT' }, false],
  [{ 'if-modified-since': 'yesterday' }, false],
  // With both fields the tag decides.
  [{ 'if-none-match': '"6"', 'if-modified-since': LATER }, false],
])('a client with %j has the response: %s', (client, matches) => {
  expect(matchesValidators(client, responseOf(1, { etag: '"7"', 'last-modified': DAY }))).toBe(matches)
})

test('a 304 updates the headers, except those of the body', () => {
  const before = { etag: '"7"', age: '5', date: DAY, 'content-length': '9', 'cache-control': 'max-age=1' }
  const notModified = { etag: 'W/"7"', 'cache-control': 'no-cache', 'content-length': '0' }
  expect(refreshedHeaders(before, notModified)).toEqual({
    etag: 'W/"7"',
    'cache-control': 'no-cache',
    'content-length': '9',
  })
  expect(refreshedHeaders(before, {})).toEqual({
    etag: '"7"',
    'cache-control': 'max-age=1',
    'content-length': '9',
  })
  expect(refreshedHeaders(before, { etag: '"8"' })).toBeNull()
})
