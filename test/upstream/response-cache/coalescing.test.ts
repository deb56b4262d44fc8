import { once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import type { UpstreamSettings } from '../../../src/upstream/pool/connection.ts'
import type { UpstreamDeps } from '../../../src/upstream/upstream.ts'
import {
  FILES_PATH,
  type ForwardingApp,
  metricSum,
  startForwardingApp,
  WORKSPACE_PATH,
} from '../../support/forwarding-app.ts'
import { type Answer, get } from '../../support/http-client.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { json, type ScriptedUpstream, startScriptedUpstream } from '../../support/scripted-upstream.ts'
import { until } from '../../support/until.ts'

const CLIENTS = 20
const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'
const BOUND = 256 * 1024

let upstream: ScriptedUpstream
let gateway: ForwardingApp

/** The upstream responds when the test calls `respond`. */
async function start(settings: Partial<UpstreamSettings> = {}, deps: Partial<UpstreamDeps> = {}) {
  upstream = await startScriptedUpstream(() => {})
  gateway = await startForwardingApp(upstream.url, settings, { coalesce: true, ...deps })
}

afterEach(async () => {
  await gateway.stop()
  await upstream.stop()
})

const send = (path = WORKSPACE_PATH, headers = {}) => get(gateway.port, path, headers)
const sendAll = (count = CLIENTS): Promise<Answer>[] => Array.from({ length: count }, () => send())
const waiting = (count: number) =>
  until(
    `${count} requests wait`,
    () => gateway.requests.filter(({ observation }) => observation.phase === 'waiting').length === count,
  )
const results = async () => {
  const names = ['upstream', 'joined', 'unshared']
  const values = names.map(result =>
    metricSum(gateway.metrics, 'postern_coalesced_requests_total', { result }),
  )
  return Object.fromEntries((await Promise.all(values)).map((value, index) => [names[index], value]))
}
/** Sets the upstream's response to the requests received so far and to later ones. */
const respond = (...bytes: (string | Buffer)[]) => {
  upstream.script = request => request.send(...bytes)
  for (const request of upstream.requests) request.send(...bytes)
}
const distinct = (responses: readonly Answer[]) => [
  ...new Set(responses.map(({ status, text, complete }) => JSON.stringify([status, text, complete]))),
]

test('concurrent requests with the same key share one request to the upstream', async () => {
  await start()
  const pending = sendAll()
  await waiting(CLIENTS)
  respond(json('{"id":"ws_1"}', 'ETag: "7"\r\nServer: x\r\n'))
  const responses = await Promise.all(pending)
  expect(distinct(responses)).toEqual(['[200,"{\\"id\\":\\"ws_1\\"}",true]'])
  for (const { headers } of responses) {
    expect(headers).toMatchObject({ etag: '"7"', 'content-length': '13', 'cache-control': 'private' })
    expect(headers).not.toHaveProperty('server')
  }
  expect(upstream.requests).toHaveLength(1)
  expect(await results()).toEqual({ upstream: 1, joined: CLIENTS - 1, unshared: 0 })
  expect(gateway.requests.filter(({ observation }) => observation.shared === 'joined')).toHaveLength(
    CLIENTS - 1,
  )
  // Without a cache, a later request is sent again.
  await send()
  expect(upstream.requests).toHaveLength(2)
})

test('without coalesce, each request is forwarded on its own', async () => {
  upstream = await startScriptedUpstream(() => {})
  gateway = await startForwardingApp(upstream.url)
  const pending = sendAll(3)
  await upstream.received(3)
  respond(json('{}'))
  await Promise.all(pending)
})

test.each([
  ['path', FILES_PATH, {}],
  ['query', `${FILES_PATH}?limit=1`, {}],
  ['media type', WORKSPACE_PATH, { Accept: 'application/json' }],
  ['encoding', WORKSPACE_PATH, { 'Accept-Encoding': 'gzip' }],
  ['language', WORKSPACE_PATH, { 'Accept-Language': 'de' }],
  ['validator', WORKSPACE_PATH, { 'If-None-Match': '"7"' }],
  ['date', WORKSPACE_PATH, { 'If-Modified-Since': 'Wed, 21 Oct 2026 07:28:00 GMT' }],
  ['user agent', WORKSPACE_PATH, { 'User-Agent': 'other' }],
  ['host', WORKSPACE_PATH, { Host: 'evil.example' }],
])('a request with another %s is not coalesced', async (_, path, headers) => {
  await start()
  const pending = [send(), send(path, headers)]
  await upstream.received(2)
  for (const request of upstream.requests) request.send(json(`"${request.number}"`))
  expect(new Set((await Promise.all(pending)).map(({ text }) => text)).size).toBe(2)
})

test('a request that arrives after the head of the response is not coalesced with it', async () => {
  await start()
  const first = send()
  await upstream.received(1)
  upstream.requests[0]?.send(`${HEAD}Content-Length: 2\r\n\r\n`, '{')
  await until('the first response has begun', () => gateway.requests[0]?.observation.phase === 'streaming')
  const second = send()
  await upstream.received(2)
  upstream.requests[0]?.send('}')
  upstream.requests[1]?.send(json('"new"'))
  expect((await first).text).toBe('{}')
  expect((await second).text).toBe('"new"')
})

test.each([
  ['a 404', 'HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n', 404, 'upstream_not_found'],
  ['a 503', 'HTTP/1.1 503 No\r\nContent-Length: 0\r\nVary: *\r\n\r\n', 503, 'upstream_unavailable'],
  ['a 500', 'HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n', 502, 'upstream_error'],
  ['an HTML page', json('<p>').replace('/json', '/html'), 502, 'upstream_error'],
  ['invalid HTTP', 'nonsense\r\n\r\n', 502, 'upstream_error'],
])('%s is for all waiters', async (_, bytes, status, code) => {
  await start()
  const pending = sendAll()
  await waiting(CLIENTS)
  respond(bytes)
  expect(distinct(await Promise.all(pending))).toEqual([
    JSON.stringify([status, JSON.stringify({ code, error: 'Refused' }), true]),
  ])
  expect(upstream.requests).toHaveLength(1)
  const [, digits] = /^HTTP\/1\.1 (\d+)/.exec(bytes) ?? []
  const upstreamStatus = digits === undefined ? null : Number(digits)
  for (const { observation } of gateway.requests) expect(observation).toMatchObject({ upstreamStatus })
})

test('a rejection is for all waiters, with its error and Retry-After', async () => {
  await start()
  const pending = sendAll()
  await waiting(CLIENTS)
  const rejection = json('{"code":"slow","error":"Slowly"}', 'Retry-After: 9\r\n')
  respond(rejection.replace('200 OK', '429 Slowly'))
  const responses = await Promise.all(pending)
  expect(distinct(responses)).toEqual([JSON.stringify([429, '{"code":"slow","error":"Slowly"}', true])])
  expect(responses.map(({ headers }) => headers['retry-after'])).toEqual(responses.map(() => '9'))
  expect(upstream.requests).toHaveLength(1)
})

test('a 304 is for all waiters with the same validator', async () => {
  await start()
  const pending = Array.from({ length: 3 }, () => send(WORKSPACE_PATH, { 'If-None-Match': '"7"' }))
  await waiting(3)
  respond('HTTP/1.1 304 Same\r\nETag: "7"\r\n\r\n')
  const responses = await Promise.all(pending)
  expect(distinct(responses)).toEqual(['[304,"",true]'])
  for (const { headers } of responses) {
    expect(headers.etag).toBe('"7"')
    expect(headers).not.toHaveProperty('content-length')
  }
  expect(upstream.requests).toHaveLength(1)
})

test('a timeout of the upstream ends all waiters at the deadline', async () => {
  const clock = new ManualClock()
  await start({ headersTimeoutMs: 150 }, { clock })
  const pending = sendAll()
  await Promise.all([waiting(CLIENTS), upstream.received(1)])
  clock.advance(150)
  const responses = await Promise.all(pending)
  expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 504))
  expect(upstream.requests).toHaveLength(1)
})

test.each([
  ['a length', 'Content-Length: 50\r\n\r\n{"half":'],
  ['chunks', 'Transfer-Encoding: chunked\r\n\r\n8\r\n{"half":\r\n'],
])('an incomplete response with %s reaches no waiter: all get a 502', async (_, rest) => {
  await start()
  const pending = sendAll()
  await waiting(CLIENTS)
  for (const request of upstream.requests) request.socket.end(HEAD + rest)
  const responses = await Promise.all(pending)
  expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 502))
  expect(gateway.requests.map(({ observation }) => observation.fault)).toEqual(
    responses.map(() => 'truncated'),
  )
  expect(upstream.requests).toHaveLength(1)
})

const long = JSON.stringify('x'.repeat(2 * BOUND))
const chunk = `${long.length.toString(16)}\r\n${long}\r\n0\r\n\r\n`
test.each([
  ['has a length', json(long)],
  ['is chunked', `${HEAD}Transfer-Encoding: chunked\r\n\r\n${chunk}`],
])(
  'a response that is too long to be buffered and %s is forwarded to each waiter on its own',
  async (_, bytes) => {
    await start()
    const pending = sendAll(6)
    await waiting(6)
    respond(bytes)
    expect(distinct(await Promise.all(pending))).toEqual([JSON.stringify([200, long, true])])
    expect(upstream.requests).toHaveLength(6)
    expect(await results()).toEqual({ upstream: 1, joined: 0, unshared: 5 })
  },
)

test('a long response that ends early looks complete to no waiter', async () => {
  await start()
  const pending = sendAll(3)
  await waiting(3)
  const half = `${HEAD}Content-Length: ${4 * BOUND}\r\n\r\n${long}`
  upstream.script = request => request.socket.end(half)
  for (const request of upstream.requests) request.socket.end(half)
  expect((await Promise.all(pending)).map(({ complete }) => complete)).toEqual([false, false, false])
})

test.each(['X-Postern-Key-Id', '*'])('a response with Vary: %s is for the first waiter only', async vary => {
  await start()
  const pending = sendAll(5)
  await waiting(5)
  upstream.script = request => request.send(json(`"${request.number}"`, `Vary: ${vary}\r\n`))
  for (const request of upstream.requests) upstream.script(request)
  expect(new Set((await Promise.all(pending)).map(({ text }) => text)).size).toBe(5)
  expect(upstream.requests).toHaveLength(5)
})

/** A client that can disconnect. */
async function connectClient(path = WORKSPACE_PATH) {
  const socket = connect(gateway.port, '127.0.0.1').on('error', () => {})
  socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${gateway.port}\r\n\r\n`)
  return {
    async disconnect() {
      socket.destroy()
      await once(socket, 'close')
    },
  }
}
const aborted = (count: number) =>
  until(
    `${count} clients have disconnected`,
    async () => (await metricSum(gateway.metrics, 'postern_http_client_aborts_total', {})) === count,
  )

test('if the first client disconnects, the others get the response of the same request', async () => {
  await start()
  const first = await connectClient()
  await upstream.received(1)
  const pending = sendAll(3)
  await waiting(4)
  await first.disconnect()
  await aborted(1)
  respond(json('{}'))
  expect(distinct(await Promise.all(pending))).toEqual(['[200,"{}",true]'])
  expect(upstream.requests).toHaveLength(1)
})

test('if the first client has disconnected, a long response is streamed to the next waiter', async () => {
  await start()
  const first = await connectClient()
  await upstream.received(1)
  const pending = sendAll(2)
  await waiting(3)
  await first.disconnect()
  await aborted(1)
  respond(json(long))
  expect(distinct(await Promise.all(pending))).toEqual([JSON.stringify([200, long, true])])
  expect(upstream.requests).toHaveLength(2)
})

test.each([
  ['before the response', []],
  ['during the response', [`${HEAD}Content-Length: 50\r\n\r\n{"half":`]],
])('if all clients disconnect %s, the exchange is aborted', async (_, begun) => {
  // Long deadlines, so that none of them ends the exchange.
  await start({ headersTimeoutMs: 60_000, bodyIdleTimeoutMs: 60_000, totalTimeoutMs: 60_000 })
  const leaving = await Promise.all([connectClient(), connectClient(), connectClient()])
  await waiting(3)
  upstream.requests[0]?.send(...begun)
  for (const { disconnect } of leaving) await disconnect()
  await upstream.disconnected(1)
  // The next request is sent again.
  const pending = send()
  await upstream.received(2)
  upstream.requests[1]?.send(json('{}'))
  expect((await pending).status).toBe(200)
})

test('two pipelined requests on one connection get one response each, in order', async () => {
  await start()
  const socket = connect(gateway.port, '127.0.0.1')
  const head = `GET ${WORKSPACE_PATH} HTTP/1.1\r\nHost: a\r\n`
  socket.write(`${head}\r\n${head}Connection: close\r\n\r\n`)
  await waiting(2)
  respond(json('"both"'))
  const received: Buffer[] = []
  socket.on('data', bytes => received.push(bytes))
  await once(socket, 'close')
  const text = Buffer.concat(received).toString()
  expect(text.split('HTTP/1.1 200 OK').slice(1)).toEqual([
    expect.stringMatching(/"both"$/),
    expect.stringMatching(/"both"$/),
  ])
  expect(upstream.requests).toHaveLength(1)
})

test('coalesced requests use one place in the queue', async () => {
  await start({ connections: 1, queue: { maxRequests: 1, maxWaitMs: 60_000 } })
  const other = send(FILES_PATH)
  await upstream.received(1)
  const pending = sendAll()
  await waiting(CLIENTS + 1)
  respond(json('{}'))
  expect(distinct(await Promise.all([other, ...pending]))).toEqual(['[200,"{}",true]'])
})
