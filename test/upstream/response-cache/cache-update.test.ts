import { describe, expect, test } from 'vitest'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import type { UpstreamHeaders } from '../../../src/upstream/pool/exchange-parties.ts'
import { CacheUpdate, ResponseCache } from '../../../src/upstream/response-cache/response-cache.ts'
import { compileResponsePolicy } from '../../../src/upstream/response-policy.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const policy = compileResponsePolicy(['content-type', 'etag', 'last-modified'])
const HEADERS = { 'content-type': 'application/json', 'cache-control': 'max-age=60', etag: '"1"' }
const PASSING = { 'content-type': 'application/json' }

function start() {
  const cache = new ResponseCache(1_000_000, createMetrics())
  const clock = new ManualClock()
  const found = () => cache.find('ws_1', 'key')
  const begin = () => new CacheUpdate(cache, clock, { workspaceId: 'ws_1', key: 'key', stale: found() })
  /** Stores a response that arrives 100 ms after its request. */
  const fill = (body: string, update = begin()) => {
    clock.advance(100)
    const freshness = update.assessFreshness(200, HEADERS)
    if (freshness === null) throw new Error('It may not be stored')
    return update.store(HEADERS, PASSING, Buffer.from(body), freshness)
  }
  return { cache, clock, found, begin, fill }
}

test('a response is stored with the time of its request', () => {
  const { clock, found, fill } = start()
  const requestedAtMs = clock.monotonicMs()
  const stored = fill('"1"')
  expect(found()).toBe(stored)
  expect(stored).toMatchObject({
    requestedAtMs,
    bornAtMs: requestedAtMs,
    freshUntilMs: requestedAtMs + 60_000,
  })
})

test('a late response to an older request does not replace that to a newer one', () => {
  const { clock, found, begin, fill } = start()
  const older = begin()
  clock.advance(1)
  const newest = fill('"new"')
  const late = fill('"old"', older)
  expect([found(), late.body]).toEqual([newest, '"old"'])
})

test('of two requests at the same time the response that arrives last is kept', () => {
  const { found, begin, fill } = start()
  const [one, other] = [begin(), begin()]
  fill('"1"', one)
  const last = fill('"2"', other)
  expect(found()).toBe(last)
})

test('a response to a request from before the cache was cleared is not stored', () => {
  const { cache, found, begin, fill } = start()
  const before = begin()
  cache.clear()
  expect(fill('"1"', before).body).toBe('"1"')
  expect(found()).toBeUndefined()
})

describe('an entry', () => {
  const entryAfter = (status: number, headers: UpstreamHeaders) => {
    const { found, begin, fill } = start()
    fill('"1"')
    const freshness = begin().assessFreshness(status, headers)
    return { isStored: freshness !== null, isKept: found() !== undefined }
  }
  test.each([200, 204, 301, 404, 410, 499])('goes with a %i that may not be stored', status => {
    expect(entryAfter(status, {})).toEqual({ isStored: false, isKept: false })
  })

  test.each([500, 503, 599, 304])('stays with a %i, which says nothing about it', status => {
    expect(entryAfter(status, HEADERS)).toEqual({ isStored: false, isKept: true })
  })

  test('may be replaced by a 200 only', () => {
    expect(entryAfter(200, HEADERS)).toEqual({ isStored: true, isKept: true })
    expect(entryAfter(203, HEADERS)).toEqual({ isStored: false, isKept: false })
  })
})

describe('a 304', () => {
  test('refreshes the entry for its whole lifetime, with the body that it has', () => {
    const { clock, found, begin, fill } = start()
    fill('"1"')
    clock.advance(70_000)
    const update = begin()
    expect(update.isRevalidation).toBe(true)
    const refreshed = update.refresh({ 'cache-control': 'max-age=5' }, policy)
    expect(refreshed).toBe(found())
    expect(refreshed).toMatchObject({ body: '"1"', freshUntilMs: clock.monotonicMs() + 5000 })
    expect(refreshed?.fields).toContain('max-age=5')
  })

  test.each<[string, UpstreamHeaders]>([
    ['names another response', { etag: '"2"' }],
    ['forbids to store it', { 'cache-control': 'no-store' }],
    ['has two tags', { etag: ['"1"', '"1"'] }],
    ['has two dates, so that it passes to no client', { 'last-modified': ['d', 'e'] }],
  ])('that %s drops the entry', (_what, headers) => {
    const { found, begin, fill } = start()
    fill('"1"')
    expect(begin().refresh(headers, policy)).toBeNull()
    expect(found()).toBeUndefined()
  })

  test('to no validators of ours refreshes nothing', () => {
    const { begin } = start()
    const update = begin()
    expect([update.isRevalidation, update.refresh(HEADERS, policy)]).toEqual([false, null])
  })
})
