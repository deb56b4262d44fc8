import { describe, expect, test } from 'vitest'
import { directivesOf, freshnessOf, wantsFresher } from '../../../src/upstream/response-cache/freshness.ts'
import type { UpstreamHeaders } from '../../../src/upstream/response-policy.ts'

const WALL_MS = Date.UTC(2026, 10, 21, 12)
const times = { requestedAtMs: 1000, nowMs: 1250, wallMs: WALL_MS }
const date = (offsetSeconds: number) => new Date(WALL_MS + offsetSeconds * 1000).toUTCString()
const ETAG = { etag: '"7"' }
const kept = (headers: UpstreamHeaders) => freshnessOf(headers, times)
const lifetimeOf = (cacheControl: string | string[]) =>
  (kept({ ...ETAG, 'cache-control': cacheControl })?.lifetimeMs ?? Number.NaN) / 1000

describe('an answer is kept', () => {
  test.each([
    ['max-age=60', 60],
    ['MAX-AGE=60', 60],
    ['max-age="60"', 60],
    ['public, max-age=60', 60],
    ['max-age=60, s-maxage=5', 5],
    ['S-Maxage = 5 , max-age=60', 5],
    ['max-age=60, max-age=60', 60],
    ['max-age=60, must-revalidate', 60],
    ['max-age=99999999999999999999', 2 ** 31],
  ])('for as long as %s says', (said, seconds) => expect(lifetimeOf(said)).toBe(seconds))

  test.each([
    'no-cache',
    'No-Cache',
    'no-cache="etag"',
    'no-cache, max-age=60',
    'max-age=0',
    'max-age=60, max-age=5',
    'max-age=1e3',
    'max-age=-1',
    'max-age=',
    'max-age',
    's-maxage=x, max-age=60',
    'public',
    'must-revalidate',
  ])('but validated each time where it is said to be, or is not said to be fresh in numbers: %s', said => {
    expect(lifetimeOf(said)).toBe(0)
    // With nothing to validate it by it would never be of use.
    expect(kept({ 'cache-control': said })).toBeNull()
  })

  test('by Expires where there is no age, against the upstream’s own clock', () => {
    expect(kept({ expires: date(90), date: date(30) })?.lifetimeMs).toBe(60_000)
    expect(kept({ expires: date(90) })?.lifetimeMs).toBe(90_000)
    expect(kept({ expires: date(90), 'cache-control': 'max-age=5' })?.lifetimeMs).toBe(5000)
    for (const expires of ['0', '-1', 'never', date(-1)]) expect(kept({ expires, date: date(0) })).toBeNull()
  })
})

describe('an answer is not kept', () => {
  test.each([
    'no-store',
    'No-Store',
    'NO-STORE, max-age=60',
    'max-age=60,no-store',
    'private',
    'Private, max-age=60',
    'private="x", max-age=60',
    'x="a, b", no-store, max-age=60',
  ])('where the upstream says %s', said => {
    expect(kept({ ...ETAG, 'cache-control': said })).toBeNull()
    expect(kept({ ...ETAG, 'cache-control': ['max-age=60', said] })).toBeNull()
  })

  test('where the upstream says nothing of it, with a validator or without', () => {
    expect(kept({})).toBeNull()
    expect(kept({ ...ETAG, 'last-modified': date(-3600) })).toBeNull()
  })

  test.each([
    [{ 'set-cookie': 'a=b' }],
    [{ vary: '*' }],
    [{ vary: 'Accept, X-Postern-Key-Id' }],
    [{ vary: 'x-forwarded-for' }],
    [{ vary: 'If-None-Match' }],
  ])('where it is for one caller: %j', more => {
    expect(kept({ ...ETAG, 'cache-control': 'max-age=60' })).not.toBeNull()
    expect(kept({ ...ETAG, 'cache-control': 'max-age=60', ...more })).toBeNull()
  })

  test('where it is stale already', () => {
    expect(kept({ 'cache-control': 'max-age=60', age: '60' })).toBeNull()
    expect(kept({ 'cache-control': 'max-age=60', date: date(-61) })).toBeNull()
  })
})

test('its age is the greater of what it says and of what its date says, and the time of the answer', () => {
  const ageOf = (headers: UpstreamHeaders) => kept({ 'cache-control': 'max-age=999', ...headers })?.ageMs
  expect(ageOf({})).toBe(250)
  expect(ageOf({ age: '10' })).toBe(10_250)
  expect(ageOf({ age: 'ten' })).toBe(250)
  expect(ageOf({ age: '10', date: date(-30) })).toBe(30_000)
  expect(ageOf({ date: date(30) })).toBe(250)
})

test.each([
  ['', false],
  ['no-cache', true],
  ['No-Store', true],
  ['max-age=0', true],
  ['max-age=9', true],
  ['max-age=10', false],
  ['max-age=x', true],
  ['min-fresh=5', false],
  ['min-fresh=6', true],
  ['max-stale=5', false],
  ['only-if-cached', false],
])('a client that says %j wants a fresher one than of 10 s, with 5 s to go: %s', (said, fresher) => {
  expect(wantsFresher(directivesOf(said), { ageMs: 10_000, freshForMs: 5000 })).toBe(fresher)
})

test('a value is what stands in its quotes, or up to the next space or comma', () => {
  const directives = directivesOf('a = "b, c" ,d=e f, g="h, i="j" , k=, l')
  expect(Object.fromEntries(directives)).toEqual({
    a: 'b, c',
    d: 'e',
    f: '',
    g: 'h, i=',
    'j"': '',
    k: '',
    l: '',
  })
})
