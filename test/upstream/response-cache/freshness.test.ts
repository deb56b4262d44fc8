import { describe, expect, test } from 'vitest'
import type { UpstreamHeaders } from '../../../src/upstream/pool/exchange-parties.ts'
import {
  assessFreshness,
  parseDirectives,
  wantsFresher,
} from '../../../src/upstream/response-cache/freshness.ts'

const WALL_MS = Date.UTC(2026, 10, 21, 12)
const times = { requestedAtMs: 1000, nowMs: 1250, wallMs: WALL_MS }
const date = (offsetSeconds: number) => new Date(WALL_MS + offsetSeconds * 1000).toUTCString()
const ETAG = { etag: '"7"' }
const freshnessFor = (headers: UpstreamHeaders) => assessFreshness(headers, times)
const lifetimeOf = (cacheControl: string | string[]) =>
  (freshnessFor({ ...ETAG, 'cache-control': cacheControl })?.lifetimeMs ?? Number.NaN) / 1000

describe('a response is stored', () => {
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
  ])('for the lifetime of %s', (cacheControl, seconds) => expect(lifetimeOf(cacheControl)).toBe(seconds))

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
  ])('but revalidated with each use if no positive lifetime is declared: %s', cacheControl => {
    expect(lifetimeOf(cacheControl)).toBe(0)
    // Without a validator it could never be reused.
    expect(freshnessFor({ 'cache-control': cacheControl })).toBeNull()
  })

  test('until Expires if there is no max-age, by the upstream’s own clock', () => {
    expect(freshnessFor({ expires: date(90), date: date(30) })?.lifetimeMs).toBe(60_000)
    expect(freshnessFor({ expires: date(90) })?.lifetimeMs).toBe(90_000)
    expect(freshnessFor({ expires: date(90), 'cache-control': 'max-age=5' })?.lifetimeMs).toBe(5000)
    for (const expires of ['0', '-1', 'never', date(-1)])
      expect(freshnessFor({ expires, date: date(0) })).toBeNull()
    // With a validator it may be stored, and is revalidated with each use. Repeated, it has no single meaning.
    for (const expires of ['never', date(-1), [date(90), date(90)], ['', date(90)]])
      expect(freshnessFor({ ...ETAG, expires, date: date(0) })?.lifetimeMs).toBe(0)
  })

  test.each(['3600', '40', '9999', '2094-11-06T08:49:37Z', '1 Jan 2094', 'Sun, 06 Nov 2094 08:49:37'])(
    'not until Expires if that is no date of HTTP, which JavaScript may take for one: %s',
    expires => expect(freshnessFor({ expires })).toBeNull(),
  )

  test.each([
    'Sun, 21 Nov 2094 12:00:00 GMT',
    'Sunday, 21-Nov-94 12:00:00 GMT',
    'Sun Nov 21 12:00:00 2094',
    'Tue Nov  2 12:00:00 2094',
  ])('until Expires in each of the three forms of a date: %s', expires => {
    const year = expires.includes('-') ? 1994 : 2094
    const expiresMs = Date.UTC(year, 10, expires.includes('21') ? 21 : 2, 12)
    const lifetimeMs = expiresMs - WALL_MS
    expect(freshnessFor({ ...ETAG, expires })?.lifetimeMs).toBe(Math.max(0, lifetimeMs))
  })
})

describe('a response is not stored', () => {
  test.each([
    'no-store',
    'No-Store',
    'NO-STORE, max-age=60',
    'max-age=60,no-store',
    'private',
    'Private, max-age=60',
    'private="x", max-age=60',
    'x="a, b", no-store, max-age=60',
  ])('with %s', cacheControl => {
    expect(freshnessFor({ ...ETAG, 'cache-control': cacheControl })).toBeNull()
    expect(freshnessFor({ ...ETAG, 'cache-control': ['max-age=60', cacheControl] })).toBeNull()
  })

  test('without cache headers, with or without a validator', () => {
    expect(freshnessFor({})).toBeNull()
    expect(freshnessFor({ ...ETAG, 'last-modified': date(-3600) })).toBeNull()
  })

  test.each([
    [{ 'set-cookie': 'a=b' }],
    [{ vary: '*' }],
    [{ vary: 'Accept, X-Postern-Key-Id' }],
    [{ vary: 'x-forwarded-for' }],
    [{ vary: 'If-None-Match' }],
    [{ vary: 'Accept, If-Modified-Since' }],
  ])('if it is for one caller: %j', more => {
    expect(freshnessFor({ ...ETAG, 'cache-control': 'max-age=60' })).not.toBeNull()
    expect(freshnessFor({ ...ETAG, 'cache-control': 'max-age=60', ...more })).toBeNull()
  })

  test('if it is already stale', () => {
    expect(freshnessFor({ 'cache-control': 'max-age=60', age: '60' })).toBeNull()
    expect(freshnessFor({ 'cache-control': 'max-age=60', date: date(-61) })).toBeNull()
    expect(freshnessFor({ 'cache-control': 'max-age=60', date: date(-60) })).toBeNull()
    expect(freshnessFor({ 'cache-control': 'max-age=60', date: date(-59) })).not.toBeNull()
  })

  test('unless it can be revalidated, by its tag or its date', () => {
    const stale = { 'cache-control': 'max-age=0' }
    expect(freshnessFor({ ...stale, 'last-modified': date(-3600) })?.lifetimeMs).toBe(0)
    expect(freshnessFor({ ...stale, etag: ['"1"', '"2"'], 'last-modified': [date(0), date(0)] })).toBeNull()
  })
})

test('the age is the larger of the Age field plus response time, and the age by Date', () => {
  const ageOf = (headers: UpstreamHeaders) =>
    freshnessFor({ 'cache-control': 'max-age=999', ...headers })?.ageMs
  expect(ageOf({})).toBe(250)
  expect(ageOf({ age: '10' })).toBe(10_250)
  expect(ageOf({ age: 'ten' })).toBe(250)
  for (const age of ['1a', 'a1']) expect(ageOf({ age: [age, '10'] })).toBe(250)
  for (const age of [['10', '5'], '10, 5', '10 ,x']) expect(ageOf({ age })).toBe(10_250)
  for (const age of ['1a', 'a1', '-1', '1.5', '']) expect(ageOf({ age })).toBe(250)
  expect(ageOf({ date: [date(-30), date(-30)] })).toBe(250)
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
])(
  'a request with %j needs more than a response of age 10 s that is fresh for 5 s: %s',
  (cacheControl, expected) => {
    expect(wantsFresher(parseDirectives(cacheControl), { ageMs: 10_000, freshForMs: 5000 })).toBe(expected)
  },
)

test('a directive value is quoted, or ends at the next space or comma', () => {
  const directives = parseDirectives('a = "b, c" ,d=e f, g="h, i="j" , k=, l')
  expect(Object.fromEntries(directives)).toEqual({
    a: 'b, c',
    d: 'e',
    f: '',
    g: 'h, i=',
    'j"': '',
    k: '',
    l: '',
  })
  // Two values that differ are no value.
  expect(parseDirectives('a=1, a=2').get('a')).toBe('')
  expect(parseDirectives('a=1, A=1').get('a')).toBe('1')
  expect([...parseDirectives(undefined)]).toEqual([])
  expect([...parseDirectives(['a=1', 'b="2"'])]).toEqual([
    ['a', '1'],
    ['b', '2'],
  ])
})
