import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import {
  type CachedResponse,
  matchesValidators,
  refreshedHeaders,
  toCachedResponse,
} from '../../../src/upstream/response-cache/cached-response.ts'
import { ResponseCache } from '../../../src/upstream/response-cache/response-cache.ts'
import { metricValue } from '../../support/forwarding-app.ts'

const BOUND = 1_000_000
const metrics = createMetrics()
const cacheOf = (bytes = BOUND) => new ResponseCache(bytes, metrics)

function answerOf(bytes: number, upstream: Record<string, string> = {}): CachedResponse {
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

test('whatever is asked, what is kept takes no more than it may', async () => {
  const cache = cacheOf()
  for (let index = 0; index < 10_000; index++) {
    cache.store(`ws_${index % 7}`, `question ${index}`, answerOf(index % 3000))
    expect(cache.bytes).toBeLessThanOrEqual(BOUND)
  }
  expect(cache.bytes).toBeGreaterThan(BOUND * 0.9)
  expect(await metricValue(metrics, 'postern_answer_cache_bytes', {})).toBe(cache.bytes)
  cache.clear()
  expect(cache.bytes).toBe(0)
})

test('the account is right whatever is stored, replaced and dropped, in any order', () => {
  const step = fc.record({
    workspace: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
    question: fc.constantFrom('1', '2', '3'),
    bytes: fc.option(fc.nat(40_000), { nil: null }),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), steps => {
      const cache = cacheOf(100_000)
      for (const { workspace, question, bytes } of steps) {
        if (bytes === null) cache.drop(workspace, question)
        else cache.store(workspace, question, answerOf(bytes))
        expect(cache.bytes).toBeGreaterThanOrEqual(0)
        expect(cache.bytes).toBeLessThanOrEqual(100_000)
      }
      for (const { workspace, question } of steps) cache.drop(workspace, question)
      expect(cache.bytes).toBe(0)
    }),
  )
})

test('one workspace that asks much pushes out its own and nobody else’s', () => {
  const cache = cacheOf()
  const answer = answerOf(1000)
  for (const quiet of ['ws_a', 'ws_b', 'ws_c']) cache.store(quiet, 'question', answer)
  for (let index = 0; index < 10_000; index++) cache.store('ws_loud', `question ${index}`, answerOf(1000))
  for (const quiet of ['ws_a', 'ws_b', 'ws_c']) expect(cache.find(quiet, 'question')).toBe(answer)
  expect(cache.bytes).toBeLessThan(BOUND / 3)
})

test('what was used longest ago goes first', () => {
  const cache = cacheOf()
  for (let index = 0; index < 500; index++) {
    cache.store('ws', `question ${index}`, answerOf(1000))
    cache.find('ws', 'question 0')
  }
  expect(cache.find('ws', 'question 0')).toBeDefined()
  expect(cache.find('ws', 'question 1')).toBeUndefined()
})

test('one answer that is larger than a workspace may take is not kept, nor is the one of before', () => {
  const cache = cacheOf()
  cache.store('ws', 'question', answerOf(10))
  cache.store('ws', 'question', answerOf(BOUND / 2))
  expect(cache.find('ws', 'question')).toBeUndefined()
  expect(cache.bytes).toBe(0)
})

test('what one workspace asked is not found in another', () => {
  const cache = cacheOf()
  cache.store('ws_a', 'question', answerOf(10))
  expect(cache.find('ws_b', 'question')).toBeUndefined()
  expect(cache.find('', 'ws_aquestion')).toBeUndefined()
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
  // The tag decides where both are given.
  [{ 'if-none-match': '"6"', 'if-modified-since': LATER }, false],
])('a client that says %j has it already: %s', (client, known) => {
  expect(matchesValidators(client, answerOf(1, { etag: '"7"', 'last-modified': DAY }))).toBe(known)
})

test('a 304 renews what the upstream said of an answer, but for its body', () => {
  const before = { etag: '"7"', age: '5', date: DAY, 'content-length': '9', 'cache-control': 'max-age=1' }
  const unchanged = { etag: 'W/"7"', 'cache-control': 'no-cache', 'content-length': '0' }
  expect(refreshedHeaders(before, unchanged)).toEqual({
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
