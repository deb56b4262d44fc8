import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { startPostern } from '../support/postern-process.ts'
import { exchange, field, get, type RawAnswer } from '../support/raw-client.ts'
import { jsonAnswer, rawAnswer } from '../support/recording-upstream.ts'
import { scrape, sumOf } from '../support/scrape.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

let world: World
let key: IssuedKey
const WORKSPACE = '/api/v1/workspaces/ws_1'

beforeAll(async () => {
  world = await startWorld()
  key = await world.issue()
})
afterAll(() => world.stop())
beforeEach(() => world.upstream.reset())

const send = (...lines: string[]): Promise<RawAnswer> =>
  exchange(world.gateway.urls.gateway, get(WORKSPACE, key.secret, ...lines))

/** Names of the header fields that the upstream received, in lower case. */
function namesSeen(): string[] {
  const [, ...lines] = (world.upstream.requests[0] ?? '').trimEnd().split('\r\n')
  return lines.map(line => line.slice(0, line.indexOf(':')).toLowerCase()).sort()
}
const seen = (name: string) =>
  new RegExp(`^${name}: (.*)$`, 'im').exec(world.upstream.requests[0] ?? '')?.[1]?.trim()

const OURS = [
  'connection',
  'host',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-postern-key-id',
  'x-postern-scopes',
  'x-postern-workspace-id',
  'x-request-id',
]

describe('request headers sent to the upstream', () => {
  test('identify the key and do not contain the credential', async () => {
    await send()
    expect(namesSeen()).toEqual(OURS)
    expect(seen('x-postern-workspace-id')).toBe('ws_1')
    expect(seen('x-postern-key-id')).toBe(key.id)
    expect(seen('x-postern-scopes')).toBe('files:read workspace:read')
    expect(seen('x-forwarded-for')).toBe('127.0.0.1')
    expect(seen('x-forwarded-proto')).toBe('http')
    expect(seen('x-forwarded-host')).toBe('gw')
    expect(`http://${seen('host')}`).toBe(world.upstream.url)
    expect(world.upstream.requests[0]).not.toContain(key.secret)
  })

  test('include the allowed headers unchanged', async () => {
    const lines = [
      'Accept: application/json',
      'Accept-Encoding: gzip',
      'Accept-Language: de',
      'If-None-Match: "a"',
      'If-Modified-Since: Sat, 01 Jan 2028 00:00:00 GMT',
      'User-Agent: probe/1',
      'tracestate: a=b',
      'traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    ]
    await send(...lines)
    for (const line of lines) expect(world.upstream.requests[0]?.toLowerCase()).toContain(line.toLowerCase())
  })

  test.each([
    'X-Workspace-Id: ws_2',
    'X-Postern-Workspace-Id: ws_2',
    'X_Postern_Workspace_Id: ws_2',
    'X.Postern.Workspace.Id: ws_2',
    'X-Postern-Scopes: admin',
    'X-Postern-Key-Id: key_x',
    'X-Postern-Assertion: x.y.z',
    'X_Postern_Assertion: x.y.z',
    'X.Postern.Assertion: x.y.z',
    'X-Forwarded-For: 127.0.0.9',
    'Forwarded: for=127.0.0.9',
    'X-Real-IP: 1.2.3.4',
    'X-Forwarded-Uri: /admin',
    'X-Original-URL: /admin',
    'X-Rewrite-URL: /admin',
    'X-Forwarded-Host: evil',
    'X-Forwarded-Proto: https',
    'X-Forwarded-Prefix: /x',
    'Cookie: a=b',
    'Via: 1.1 evil',
    'Max-Forwards: 0',
    'TE: trailers',
    'Trailer: X',
    'Keep-Alive: timeout=5',
    'Proxy-Authorization: Basic x',
    'Content-Type: application/json',
    '__proto__: x',
    'constructor: y',
    'X-HTTP-Method-Override: DELETE',
    'X-Workspace_Id: ws_2',
    'X_Workspace_Id: ws_2',
    'X.Workspace.Id: ws_2',
    'x-postern_workspace-id: ws_2',
    'True-Client-IP: 127.0.0.1',
    'CF-Connecting-IP: 127.0.0.1',
    'X-Client-IP: 127.0.0.1',
    'X-Envoy-Original-Path: /admin',
    'X-Forwarded-User: admin',
    'X-Middleware-Subrequest: src/middleware',
    'X-Postern-Internal: 1',
    'CDN-Loop: evil',
    'toString: z',
    'hasOwnProperty: z',
    'Host_: evil',
    'Range: bytes=0-1',
  ])('never include %s', async line => {
    const answer = await send(line)
    expect(answer.status).toBe(200)
    expect(namesSeen()).toEqual(OURS)
    expect(seen('x-postern-workspace-id')).toBe('ws_1')
    expect(seen('x-forwarded-for')).toBe('127.0.0.1')
    expect(seen('x-forwarded-host')).toBe('gw')
  })

  test("keep the gateway's own fields if the client names them in Connection", async () => {
    await send(
      'Connection: keep-alive, Host, Authorization, X-Postern-Workspace-Id, X-Request-Id, X-Forwarded-For',
    )
    expect(namesSeen()).toEqual(OURS)
  })

  test("keep the client's request id if it is well formed, and return it in the response", async () => {
    const kept = await send('X-Request-Id: order-66_a.b')
    expect([seen('x-request-id'), field(kept, 'x-request-id')]).toEqual(['order-66_a.b', 'order-66_a.b'])
    world.upstream.reset()
    for (const lines of [
      ['X-Request-Id: a b'],
      ['X-Request-Id: {}'],
      ['X-Request-Id: a', 'X-Request-Id: b'],
      [`X-Request-Id: ${'a'.repeat(129)}`],
    ]) {
      expect(field(await send(...lines), 'x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
    }
  })
})

describe('response headers sent to the client', () => {
  const hostile = [
    'Server: secret/1',
    'X-Powered-By: secret',
    'Set-Cookie: a=b',
    'WWW-Authenticate: Basic',
    'Location: http://127.0.0.1/x',
    'Access-Control-Allow-Origin: *',
    'Via: 1.1 secret',
    'X-Internal: 10.0.0.1',
    'Keep-Alive: timeout=1',
    'Connection: keep-alive, X-Internal',
    'Proxy-Authenticate: Basic',
    'Link: <http://10.0.0.1/next>; rel=next',
    'Trailer: X',
  ]

  test('are limited to the allowed ones', async () => {
    world.upstream.answer = () =>
      jsonAnswer(
        200,
        '{}',
        'ETag: "1"',
        'Last-Modified: Sat, 01 Jan 2028 00:00:00 GMT',
        'Vary: Accept',
        'Cache-Control: max-age=5',
        ...hostile,
      )
    const answer = await send()
    expect(answer.fields.map(([name]) => name.toLowerCase()).sort()).toEqual([
      'cache-control',
      'connection',
      'content-length',
      'content-type',
      'date',
      'etag',
      'keep-alive',
      'last-modified',
      'vary',
      'x-content-type-options',
      'x-request-id',
    ])
    // Set by Node for this connection; the upstream's value was 1.
    expect(field(answer, 'keep-alive')).not.toBe('timeout=1')
  })

  test.each([
    [[], 'private'],
    [['Cache-Control: public, max-age=60'], 'private, max-age=60'],
    [['Cache-Control: no-store'], 'no-store'],
    [['Cache-Control: private, max-age=60'], 'private, max-age=60'],
  ])(
    'a response for a workspace may not be stored by shared caches: %j becomes %s',
    async (lines, expected) => {
      world.upstream.answer = () => jsonAnswer(200, '{}', ...lines)
      expect(field(await send(), 'cache-control')).toBe(expected)
    },
  )

  test('include a Link within the API', async () => {
    world.upstream.answer = () => jsonAnswer(200, '{}', 'Link: </api/v1/workspaces/ws_1?page=2>; rel="next"')
    expect(field(await send(), 'link')).toBe('</api/v1/workspaces/ws_1?page=2>; rel="next"')
  })
})

describe('an upstream response never reaches the client other than documented', () => {
  const cases: [name: string, bytes: string, status: number, code: string][] = [
    ['its 404', rawAnswer(404, 'gone', 'Content-Type: text/html'), 404, 'not_found'],
    ['its redirect', rawAnswer(302, '', 'Location: http://10.0.0.1/'), 502, 'upstream_error'],
    ['its 401', jsonAnswer(401, '{}'), 502, 'upstream_error'],
    ['its 403', jsonAnswer(403, '{}'), 502, 'upstream_error'],
    ['its 407', jsonAnswer(407, '{}'), 502, 'upstream_error'],
    ['its 500', jsonAnswer(500, '{"stack":"at secret"}'), 502, 'upstream_error'],
    ['its 503', jsonAnswer(503, '{}'), 503, 'upstream_unavailable'],
    ['its 400 with a code', jsonAnswer(400, '{"code":"bad_limit","error":"Too much"}'), 400, 'bad_limit'],
    ['its 409 without', rawAnswer(409, 'no', 'Content-Type: text/plain'), 409, 'upstream_rejected'],
    ['its HTML', rawAnswer(200, '<p>', 'Content-Type: text/html'), 502, 'upstream_error'],
    ['garbage', 'SSH-2.0-OpenSSH_9\r\n\r\n', 502, 'upstream_error'],
  ]
  test.each(cases)('%s', async (_name, bytes, status, code) => {
    world.upstream.answer = () => bytes
    const answer = await send()
    const body = JSON.parse(answer.body) as { code: string; error: string }
    expect([answer.status, body.code]).toEqual([status, code])
    expect(Object.keys(body)).toEqual(['code', 'error'])
    expect(answer.head + answer.body).not.toMatch(/secret|10\.0\.0\.1|stack/)
    expect(world.upstream.requests).toHaveLength(1)
  })

  test('a 503 says when to come back, if the upstream said so in seconds', async () => {
    world.upstream.answer = () => jsonAnswer(503, '{}', 'Retry-After: 17')
    expect(field(await send(), 'retry-after')).toBe('17')
    world.upstream.answer = () => jsonAnswer(503, '{}', 'Retry-After: Sat, 01 Jan 2028 00:00:00 GMT')
    expect(field(await send(), 'retry-after')).toMatch(/^\d+$/)
  })
})

test('a Host of another server changes nothing but the host reported to the upstream', async () => {
  const answer = await exchange(
    world.gateway.urls.gateway,
    `GET ${WORKSPACE} HTTP/1.1\r\nHost: internal.service:9\r\nAuthorization: Bearer ${key.secret}\r\n\r\n`,
  )
  expect(answer.status).toBe(200)
  expect(`http://${seen('host')}`).toBe(world.upstream.url)
  expect(seen('x-forwarded-host')).toBe('internal.service:9')
})

test('header names such as __proto__ do not modify objects', async () => {
  const names = ['__proto__', 'constructor', 'prototype', 'toString', 'valueOf', '__defineGetter__']
  const answer = await send(...names.map(name => `${name}: polluted`))
  expect(answer.status).toBe(200)
  expect(namesSeen()).toEqual(OURS)
  // A polluted prototype would show in every later request.
  world.upstream.reset()
  expect((await send()).head).not.toContain('polluted')
  expect(world.upstream.requests[0]).not.toContain('polluted')
})

test('a gateway configured as its own upstream responds once and does not loop', async () => {
  const port = await freePort()
  const own = await startPostern('gateway', {
    ...world.env,
    POSTERN_UPSTREAM_URL: `http://127.0.0.1:${port}`,
    POSTERN_GATEWAY_PORT: String(port),
  })
  const answer = await exchange(own.urls.gateway, get(WORKSPACE, key.secret))
  expect([answer.status, (JSON.parse(answer.body) as { code: string }).code]).toEqual([502, 'upstream_error'])
  const metrics = await scrape(own.urls.ops)
  expect(sumOf(metrics, 'postern_http_requests_total')).toBe(2)
  await own.process.stop()
})
