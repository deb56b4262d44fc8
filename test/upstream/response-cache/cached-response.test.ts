import { describe, expect, test } from 'vitest'
import type { UpstreamHeaders } from '../../../src/upstream/pool/exchange-parties.ts'
import {
  type CacheableResponse,
  matchesValidators,
  refreshedHeaders,
  responseFor,
  toCachedResponse,
  validatorsFor,
} from '../../../src/upstream/response-cache/response-cache.ts'

const cached = (more: Partial<CacheableResponse> = {}) =>
  toCachedResponse({
    upstream: { etag: '"7"' },
    passing: { 'content-type': 'application/json', 'content-encoding': 'br', etag: '"7"' },
    body: Buffer.from('"é"'),
    freshness: { ageMs: 400, lifetimeMs: 5000 },
    requestedAtMs: 900,
    nowMs: 1000,
    ...more,
  })
const upstream = (headers: UpstreamHeaders) => cached({ upstream: headers })

test('a response is prepared once for all clients, with the age that it had', () => {
  expect(cached()).toEqual({
    upstream: { etag: '"7"' },
    fields: [
      ...['content-type', 'application/json', 'content-encoding', 'br', 'etag', '"7"'],
      ...['x-content-type-options', 'nosniff', 'content-length', '4'],
    ],
    notModifiedFields: ['etag', '"7"', 'x-content-type-options', 'nosniff'],
    body: Buffer.from('"é"').toString('latin1'),
    length: 4,
    requestedAtMs: 900,
    bornAtMs: 600,
    freshUntilMs: 5600,
    // Body, twice the text of the headers, and the objects.
    size: 4 + 2 * 'etag"7"'.length + 1500,
  })
})

test('a body of up to 16 KiB is one string, a longer one stays bytes', () => {
  expect(typeof cached({ body: Buffer.alloc(16 * 1024) }).body).toBe('string')
  expect(typeof cached({ body: Buffer.alloc(16 * 1024 + 1) }).body).toBe('object')
  const { body } = cached()
  expect(cached({ body }).body).toBe(body)
})

describe('a client gets', () => {
  test('the response, with its age if it comes from the cache', () => {
    const response = cached()
    const { fields, body } = response
    const whole = { status: 200, fields, lengthField: [], body }
    expect(responseFor({}, response, null)).toEqual(whole)
    expect(responseFor({}, response, 7)).toEqual({ ...whole, fields: [...fields, 'age', '7'] })
  })

  test('a 304 without the fields of a body if it has the response', () => {
    const response = cached()
    expect(responseFor({ 'if-none-match': '"7"' }, response, 7)).toEqual({
      status: 304,
      fields: [...response.notModifiedFields, 'age', '7'],
      lengthField: [],
      body: '',
    })
  })
})

test.each<[UpstreamHeaders, Record<string, string>]>([
  [
    { etag: '"7"', 'last-modified': 'd' },
    { 'if-none-match': '"7"', 'if-modified-since': 'd' },
  ],
  [{ etag: '"7"' }, { 'if-none-match': '"7"' }],
  [{ 'last-modified': 'd' }, { 'if-modified-since': 'd' }],
  [{ etag: ['"7"', '"8"'], 'last-modified': ['d', 'e'] }, {}],
])('a response with %j is revalidated with %j', (headers, validators) => {
  expect(validatorsFor(upstream(headers))).toEqual(validators)
})

test.each<[string, UpstreamHeaders, boolean]>([
  [' * ', { etag: '"7"' }, true],
  ['*', {}, true],
  ['W/"a b", "7"', { etag: 'W/"7"' }, true],
  ['"6","7"', { etag: '"7"' }, true],
  ['"6", W/"v-7.1"', { etag: '"v-7.1"' }, true],
  ['""', { etag: '""' }, true],
  ['"7"', { etag: ['"7"'] }, false],
  ['"7"', {}, false],
  ['"xW/7"', { etag: '"x7"' }, false],
])('a client with the tags %s has a response with %j: %s', (tags, headers, matches) => {
  expect(matchesValidators({ 'if-none-match': tags }, upstream(headers))).toBe(matches)
})

test('without a single date a response has not changed since none', () => {
  const since = { 'if-modified-since': 'Wed, 21 Oct 2026 07:28:00 GMT' }
  expect(matchesValidators(since, upstream({}))).toBe(false)
  expect(matchesValidators(since, upstream({ 'last-modified': ['Wed, 21 Oct 2026 07:28:00 GMT'] }))).toBe(
    false,
  )
})

test.each(['2094', '9999', 'tomorrow'])('an If-Modified-Since that is no date is ignored: %s', since => {
  const response = upstream({ 'last-modified': 'Wed, 21 Oct 2026 07:28:00 GMT' })
  expect(matchesValidators({ 'if-modified-since': since }, response)).toBe(false)
})

test.each<[string, UpstreamHeaders, UpstreamHeaders, UpstreamHeaders | null]>([
  ['another tag', { etag: '"7"' }, { etag: '"8"' }, null],
  ['the same tag, weak', { etag: '"7"' }, { etag: 'W/"7"' }, { etag: 'W/"7"' }],
  ['a first tag', {}, { etag: '"8"' }, { etag: '"8"' }],
  ['no tag', { etag: '"7"' }, {}, { etag: '"7"' }],
  [
    'another type',
    { 'content-type': 'a' },
    { 'content-type': 'b', 'content-encoding': 'c' },
    { 'content-type': 'a' },
  ],
  ['no date', { age: '5', date: 'd', etag: '"7"' }, {}, { etag: '"7"' }],
  ['a new date', { age: '5', date: 'd' }, { date: 'e', age: '1' }, { date: 'e', age: '1' }],
])('a 304 with %s updates the headers', (_what, before, notModified, after) => {
  expect(refreshedHeaders(before, notModified)).toEqual(after)
})
