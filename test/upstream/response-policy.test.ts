import { expect, test } from 'vitest'
import { compileResponsePolicy, type UpstreamHeaders } from '../../src/upstream/response-policy.ts'
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
])('a 200 of type %s passes', type => expect(policy(200, { 'content-type': type }).kind).toBe('pass'))

test.each([
  'text/html',
  'application/jsonp',
  'text/json',
  'application/json-seq',
  undefined,
  ['application/json', 'text/html'],
])('a 200 of type %s is an upstream error', type =>
  expect(policy(200, { 'content-type': type })).toMatchObject({ reason: 'upstream_error' }),
)

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

test.each([400, 402, 405, 409, 410, 422, 429, 451])('a %i keeps its status and its Retry-After', status => {
  expect(policy(status, { 'retry-after': '3' })).toEqual({ kind: 'reject', retryAfter: '3' })
})

test.each([204, 304])('a %i passes without body, length and type, and with its validators', status => {
  const headers = { etag: '"1"', 'content-length': '5', 'content-type': 'text/html' }
  expect(policy(status, headers)).toEqual({
    kind: 'pass',
    headers: { etag: '"1"', 'cache-control': 'private' },
    hasBody: false,
  })
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
})

test.each(['etag', 'content-length', 'last-modified', 'retry-after'])(
  'two %s fields are an upstream error',
  name => {
    expect(passing({ [name]: ['1', '2'] })).toMatchObject({ reason: 'upstream_error' })
  },
)

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
