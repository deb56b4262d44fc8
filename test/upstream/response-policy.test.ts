import { expect, test } from 'vitest'
import type { UpstreamHeaders } from '../../src/upstream/pool/exchange-parties.ts'
import { compileResponsePolicy, nameFault } from '../../src/upstream/response-policy.ts'
import { defaultConfig } from '../support/default-config.ts'

const policy = compileResponsePolicy(defaultConfig().gateway.responseHeaders)
const json = (headers: UpstreamHeaders = {}) => ({ 'content-type': 'application/json', ...headers })
const passing = (headers: UpstreamHeaders) => {
  const decision = policy(200, json(headers))
  return decision.kind === 'pass' ? decision.headers : decision
}

test.each([
  'application/json',
  'application/json; charset=utf-8',
  'application/problem+json',
  'Application/JSON',
  'application/vnd.api+json ;v=1',
  'application/a.b-c+d+json',
])('a 200 of type %s passes', type => expect(policy(200, { 'content-type': type }).kind).toBe('pass'))

test.each([
  'text/html',
  'application/jsonp',
  'text/json',
  'application/json-seq',
  'x application/json',
  'application/+json',
  'application/a b+json',
  'application/json x',
  undefined,
  ['application/json', 'text/html'],
])('a 200 of type %s is an upstream error', type =>
  expect(policy(200, { 'content-type': type })).toMatchObject({ reason: 'upstream_error' }),
)

test('the coding of a body passes whether it is listed or not: without it no client could read the body', () => {
  const listed = compileResponsePolicy(['Content-Type', 'X-Total-Count'])
  const gzip = json({ 'content-encoding': 'gzip', etag: '"1"' })
  expect(listed(200, gzip)).toMatchObject({
    headers: { 'content-type': 'application/json', 'content-encoding': 'gzip', 'cache-control': 'private' },
  })
  expect(passing({ 'content-encoding': 'gzip', connection: 'content-encoding' })).toMatchObject({
    'content-encoding': 'gzip',
  })
})

test.each([300, 301, 302, 307, 308, 401, 403, 407, 500, 501, 502, 504, 599, 206])(
  'a %i becomes an upstream error',
  status =>
    expect(policy(status, json({ location: 'http://10.0.0.1/' }))).toMatchObject({
      reason: 'upstream_error',
    }),
)

test('a 404 of the upstream becomes the gateway’s 404', () => {
  expect(policy(404, json())).toEqual({ kind: 'denied', reason: 'upstream_not_found' })
})

test.each([
  ['17', 17],
  ['0', 0],
  ['999999', 999_999],
  ['99999999999999999999', 5],
  ['Wed, 21 Oct 2026 07:28:00 GMT', 5],
  ['-1', 5],
  [['1', '2'], 5],
  [undefined, 5],
])('a 503 with Retry-After %s becomes %i seconds', (retryAfter, seconds) => {
  expect(policy(503, { 'retry-after': retryAfter })).toEqual({
    kind: 'denied',
    reason: 'upstream_unavailable',
    retryAfterSeconds: seconds,
  })
})

test.each([400, 402, 405, 409, 410, 422, 429, 451, 499])(
  'a %i keeps its status and its Retry-After',
  status => {
    expect(policy(status, { 'retry-after': '3' })).toEqual({ kind: 'reject', retryAfter: '3' })
  },
)

test.each([undefined, ['1', '2']])('a rejection with Retry-After %j has none for the client', retryAfter => {
  expect(policy(400, { 'retry-after': retryAfter })).toEqual({ kind: 'reject', retryAfter: null })
})

test.each([204, 304])('a %i passes without body, length and type, and with its validators', status => {
  const headers = {
    etag: '"1"',
    'content-length': '5',
    'content-type': 'text/html',
    'cache-control': 'public',
  }
  expect(policy(status, headers)).toEqual({
    kind: 'pass',
    headers: { etag: '"1"', 'cache-control': 'private' },
    hasBody: false,
  })
})

test('a 205 passes without body and type, and with the length that it has', () => {
  const headers = { etag: '"1"', 'content-length': '5', 'content-type': 'text/html' }
  expect(policy(205, headers)).toEqual({
    kind: 'pass',
    headers: { etag: '"1"', 'content-length': '0', 'cache-control': 'private' },
    hasBody: false,
  })
  expect(policy(205, { etag: ['"1"', '"2"'] })).toMatchObject({ reason: 'upstream_error' })
})

test('an empty response needs no type, except a 200 or 203, which owe the client the resource', () => {
  const kinds = (status: number, headers: UpstreamHeaders) => policy(status, headers).kind
  expect(policy(202, { 'content-length': '0' })).toEqual({
    kind: 'pass',
    headers: { 'content-length': '0', 'cache-control': 'private' },
    hasBody: true,
  })
  expect([201, 202, 226].map(status => kinds(status, { 'content-length': '0' }))).not.toContain('denied')
  for (const status of [200, 203, 206]) expect(kinds(status, { 'content-length': '0' })).toBe('denied')
  expect(kinds(202, { 'content-length': '2' })).toBe('denied')
  expect(kinds(202, {})).toBe('denied')
  expect(kinds(202, { 'content-length': '0', 'content-type': 'text/plain' })).toBe('denied')
})

test.each<[string, number, UpstreamHeaders]>([
  ['not_json', 200, {}],
  ['not_json', 202, { 'content-type': 'text/html', 'content-length': '0' }],
  ['not_json', 200, { 'content-type': 'text/html', etag: ['"1"', '"2"'] }],
  ['repeated_header', 200, { 'content-type': ['application/json', 'text/html'] }],
  ['repeated_header', 200, json({ etag: ['"1"', '"2"'] })],
  ['repeated_header', 204, { etag: ['"1"', '"2"'] }],
  ['repeated_header', 205, { etag: ['"1"', '"2"'] }],
  ['repeated_header', 304, { etag: ['"1"', '"2"'] }],
  ['repeated_header', 202, { 'content-length': '0', etag: ['"1"', '"2"'] }],
  ['status_206', 206, json()],
  ['status_302', 302, json()],
  ['status_500', 500, {}],
])('the log names the fault %s of a %i with %o', (fault, status, headers) => {
  expect(policy(status, headers)).toMatchObject({ reason: 'upstream_error' })
  expect(nameFault(status, headers)).toBe(fault)
})

test('a 304 without Cache-Control has none for the client, whose stored response keeps its own', () => {
  expect(policy(304, { etag: '"1"' })).toMatchObject({ headers: { etag: '"1"' } })
  expect(policy(304, { etag: '"1"' })).not.toHaveProperty('headers.cache-control')
  expect(policy(204, {})).toHaveProperty('headers.cache-control', 'private')
})

test('headers that are not allowed do not pass', () => {
  const hostile = {
    server: 'nginx',
    'x-powered-by': 'php',
    'set-cookie': ['a=b'],
    location: '/x',
    'www-authenticate': 'Basic',
    'access-control-allow-origin': '*',
    connection: 'keep-alive',
    'keep-alive': 'timeout=5',
    trailer: 'x',
    'transfer-encoding': 'chunked',
  }
  expect(passing(hostile)).toEqual({ 'content-type': 'application/json', 'cache-control': 'private' })
})

test('a header that Connection names does not pass', () => {
  expect(passing({ connection: 'close, ETag', etag: '"1"', vary: 'accept' })).not.toHaveProperty('etag')
  expect(passing({ connection: ['close', ' etag '], etag: '"1"' })).not.toHaveProperty('etag')
  // Without the fields of its body, a response could not be read.
  const framed = passing({ connection: 'Content-Type, Content-Length', 'content-length': '2' })
  expect(framed).toMatchObject({ 'content-type': 'application/json', 'content-length': '2' })
})

test.each(['content-type', 'content-length', 'etag', 'last-modified', 'retry-after'])(
  'two %s fields are an upstream error, with and without a body',
  name => {
    expect(passing({ [name]: ['1', '2'] })).toMatchObject({ reason: 'upstream_error' })
    expect(policy(304, { [name]: ['1', '2'] })).toMatchObject({ reason: 'upstream_error' })
  },
)

test('a tag may hold what a link may not', () => {
  expect(passing({ etag: '"v:1//2"' })).toHaveProperty('etag', '"v:1//2"')
})

test('a list in several fields is joined', () => {
  expect(passing({ vary: ['accept', 'accept-encoding'] })).toHaveProperty('vary', 'accept, accept-encoding')
})

test.each([
  [undefined, 'private'],
  ['', 'private'],
  ['public', 'private'],
  ['public, max-age=60', 'private, max-age=60'],
  ['max-age=60', 'max-age=60'],
  ['s-maxage=60', 'private'],
  ['max-age=5, must-revalidate', 'private, max-age=5, must-revalidate'],
  ['max-age=5, proxy-revalidate', 'private, max-age=5'],
  ['no-store', 'no-store'],
  ['no-cache, no-store, must-revalidate', 'no-cache, no-store, must-revalidate'],
  ['private, max-age=60', 'private, max-age=60'],
  ['PUBLIC', 'private'],
  ['private="set-cookie, x", max-age=1', 'private, max-age=1'],
  ['private, public', 'private'],
  ['no-store, private="x"', 'no-store, private="x"'],
  ['no-store, public', 'private, no-store'],
  ['Private, max-age=1', 'Private, max-age=1'],
  ['private , must-revalidate', 'private , must-revalidate'],
  ['private = "x", max-age = 1', 'private, max-age = 1'],
  ['proxy-revalidate', 'private'],
  ['must-revalidate', 'private, must-revalidate'],
  ['must-revalidate, max-age="6 0"', 'private, must-revalidate, max-age="6 0"'],
  [' , ', 'private'],
  [['public', 'max-age=9'], 'private, max-age=9'],
])('Cache-Control %j becomes %j, so that no shared cache stores the response', (received, sent) => {
  expect(passing({ 'cache-control': received })).toHaveProperty('cache-control', sent)
})

test.each([
  ['</api/v1/workspaces/ws_1/files?cursor=a:b>; rel="next"', true],
  ['<?page=2>; rel=next', true],
  ['<http://10.0.0.1/files>; rel=next', false],
  ['<//10.0.0.1/files>; rel=next', false],
  ['< HTTP:/x>; rel=next', false],
  ['<\\\\host>; rel=next', false],
  ['</a>; rel=next, <https://internal/b>; rel=prev', false],
  ['</a>; anchor="http:x"; rel=next', false],
  ['<  x:y>; rel=next', false],
  ['<h2+a.b-c:y>; rel=next', false],
  ['<1:y>; rel=next', true],
  ['<a b:c>; rel=next', true],
])('Link %s passes: %s', (link, passes) => {
  expect('link' in passing({ link })).toBe(passes)
})

test.each([
  ...['Connection', 'Keep-Alive', 'Proxy-Connection', 'Proxy-Authenticate', 'TE', 'Trailer'],
  ...['Transfer-Encoding', 'Transfer_Encoding', 'Upgrade', 'Server', 'X-Powered-By', 'X.Powered_By'],
  ...['Set-Cookie', 'X-Request-Id'],
])('allowing %s throws at start', name => {
  expect(() => compileResponsePolicy([name])).toThrow(`The header ${name.toLowerCase()} cannot`)
})
