import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { afterEach, expect, test } from 'vitest'
import type { UpstreamSettings } from '../../src/upstream/pool/connection.ts'
import type { UpstreamDeps } from '../../src/upstream/upstream.ts'
import {
  type ForwardingApp,
  metricSum,
  startForwardingApp,
  WORKSPACE_PATH,
} from '../support/forwarding-app.ts'
import { exchangeRaw, get } from '../support/http-client.ts'
import {
  json,
  type Script,
  type ScriptedRequest,
  type ScriptedUpstream,
  startScriptedUpstream,
} from '../support/scripted-upstream.ts'
import { until } from '../support/until.ts'

let upstream: ScriptedUpstream
let gateway: ForwardingApp

async function start(
  script: Script,
  settings: Partial<UpstreamSettings> = {},
  deps: Partial<UpstreamDeps> = {},
) {
  upstream = await startScriptedUpstream(script)
  gateway = await startForwardingApp(upstream.url, settings, deps)
}

const errorsOf = (kind: string) => metricSum(gateway.metrics, 'postern_upstream_errors_total', { kind })
const retries = (outcome: string) => metricSum(gateway.metrics, 'postern_upstream_retries_total', { outcome })
const send = () => get(gateway.port, WORKSPACE_PATH)
const denial = (code: string) => JSON.stringify({ code, error: 'Refused' })

afterEach(async () => {
  await gateway.stop()
  await upstream.stop()
})

test('a 503 is not retried, passes the upstream’s Retry-After, and does not occupy a connection', async () => {
  const page = 'x'.repeat(128 * 1024)
  await start(
    request =>
      request.send(`HTTP/1.1 503 No\r\nRetry-After: 7\r\nContent-Length: ${page.length}\r\n\r\n${page}`),
    { connections: 1 },
  )
  for (const count of [1, 2, 3]) {
    const response = await send()
    expect(response).toMatchObject({ status: 503, text: denial('upstream_unavailable') })
    expect(response.headers['retry-after']).toBe('7')
    expect(upstream.requests).toHaveLength(count)
  }
})

test('many long error pages do not occupy connections', async () => {
  const page = 'x'.repeat(1024 * 1024)
  await start(
    request =>
      request.number < 200
        ? request.send(`HTTP/1.1 503 No\r\nContent-Length: ${page.length}\r\n\r\n`, page)
        : request.send(json('"next"')),
    { connections: 4 },
  )
  const responses = await Promise.all(Array.from({ length: 200 }, send))
  expect(responses.filter(({ status }) => status !== 503)).toEqual([])
  expect(await send()).toMatchObject({ status: 200, text: '"next"' })
  expect(upstream.requests).toHaveLength(201)
  expect(await metricSum(gateway.metrics, 'postern_upstream_queued_requests', {})).toBe(0)
})

test('after a short error page the connection is reused, also if the page ends after the client’s response', async () => {
  await start(request => request.send('HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\n'), { connections: 1 })
  for (const number of [0, 1, 2]) {
    expect(await send()).toMatchObject({ status: 502, text: denial('upstream_error') })
    upstream.requests[number]?.send('bad')
  }
  expect(upstream.sockets).toHaveLength(1)
})

test('storms of 429, 500 and 502 are not amplified', async () => {
  const statuses = [429, 500, 502, 429, 500, 502]
  await start(request => request.send(`HTTP/1.1 ${statuses[request.number]} No\r\nContent-Length: 0\r\n\r\n`))
  for (const status of statuses) expect((await send()).status).toBe(status === 429 ? 429 : 502)
  expect(upstream.requests).toHaveLength(statuses.length)
})

test('a refused connection is a 502 that does not reveal the address', async () => {
  await start(() => {})
  await upstream.stop()
  expect(await send()).toMatchObject({ status: 502, text: denial('upstream_error') })
  expect(await errorsOf('refused')).toBe(1)
})

test('an unknown name is a 502', async () => {
  await start(() => {})
  await gateway.stop()
  gateway = await startForwardingApp('http://upstream.invalid')
  expect((await send()).status).toBe(502)
  expect(await errorsOf('dns')).toBe(1)
})

test.each<[string, string, string]>([
  ['a greeting of another protocol', 'SSH-2.0-OpenSSH_9.6\r\n', 'protocol'],
  ['a TLS alert', '\x15\x03\x01\x00\x02\x02\x46', 'protocol'],
  [
    'both ways of framing',
    'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
    'protocol',
  ],
  [
    'two lengths',
    'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ',
    'protocol',
  ],
  [
    'a negative length',
    'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: -2\r\n\r\n{}',
    'protocol',
  ],
  [
    'a body that ends with its connection',
    'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}',
    'protocol',
  ],
  [
    'a close-delimited body of HTTP/1.0',
    'HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{}',
    'protocol',
  ],
  [
    'a coding that is not chunked last',
    'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: gzip\r\n\r\n{}',
    'protocol',
  ],
  [
    'a control character in a field',
    'HTTP/1.1 200 OK\r\nETag: a\x01b\r\nContent-Length: 0\r\n\r\n',
    'protocol',
  ],
  ['a folded field', 'HTTP/1.1 200 OK\r\nETag: a\r\n b\r\nContent-Length: 0\r\n\r\n', 'protocol'],
  [
    'more than 100 fields',
    `HTTP/1.1 200 OK\r\nContent-Length: 0\r\n${'X: y\r\n'.repeat(100)}\r\n`,
    'protocol',
  ],
  [
    'a head of more than 16 KiB',
    `HTTP/1.1 200 OK\r\nX: ${'y'.repeat(17_000)}\r\nContent-Length: 0\r\n\r\n`,
    'protocol',
  ],
  ['an unknown status', 'HTTP/1.1 799 No\r\nContent-Length: 0\r\n\r\n', 'protocol'],
  [
    'a bare line feed',
    'HTTP/1.1 200 OK\nContent-Type: application/json\nContent-Length: 2\n\n{}',
    'protocol',
  ],
  ['a field without a colon', 'HTTP/1.1 200 OK\r\nContent-Length 0\r\n\r\n', 'protocol'],
  ['an unknown version', 'HTTP/3.7 200 OK\r\nContent-Length: 0\r\n\r\n', 'protocol'],
  ...['+2', '0x2', '2, 2', '2 2', '1e0', ''].map<[string, string, string]>(length => [
    `the length ${JSON.stringify(length)}`,
    `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n{}`,
    'protocol',
  ]),
  ...['identity', 'xchunked', 'chunked, identity', 'gzip, chunked', 'chunked, chunked', ',chunked'].map<
    [string, string, string]
  >(coding => [
    `the coding ${coding}`,
    `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: ${coding}\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
    'protocol',
  ]),
  ['100,000 interim responses', 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(100_000), 'protocol'],
  ['eleven times 100', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(11), 'protocol'],
  ['eleven interim responses', 'HTTP/1.1 103 Early\r\n\r\n'.repeat(11), 'protocol'],
  ['a switch of protocols', 'HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n', 'reset'],
  ['a switch of protocols without its fields', 'HTTP/1.1 101 Switching\r\n\r\n', 'protocol'],
])('%s is a 502, and the connection closes', async (_name, bytes, kind) => {
  await start(request => request.send(Buffer.from(bytes, 'latin1')))
  expect(await send()).toMatchObject({ status: 502, text: denial('upstream_error') })
  expect(await errorsOf(kind)).toBe(1)
  await upstream.disconnected(1)
  expect(upstream.requests).toHaveLength(1)
})

test('trailers are dropped, and the response is complete without them', async () => {
  await start(request =>
    request.send(
      'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nTrailer: X-Workspace\r\n\r\n',
      '2\r\n{}\r\n0\r\nX-Workspace: ws_2\r\nSet-Cookie: a=b\r\n\r\n',
    ),
  )
  for (const _ of [1, 2]) {
    const response = await exchangeRaw(
      gateway.port,
      `GET ${WORKSPACE_PATH} HTTP/1.1\r\nHost: x\r\nTE: trailers\r\nConnection: close\r\n\r\n`,
    )
    expect(response.text).toMatch(/\r\n\r\n2\r\n\{\}\r\n0\r\n\r\n$/)
    expect(response.text).not.toMatch(/trailer|x-workspace|cookie/i)
  }
  expect(upstream.sockets).toHaveLength(1)
})

test.each([
  ['broken', Buffer.from('not gzip at all')],
  ['cut off', gzipSync('{"id":"ws_1"}').subarray(0, 12)],
  ['a decompression bomb', gzipSync(Buffer.alloc(10_000_000))],
])('a compressed body that is %s passes unchanged: the gateway does not decode it', async (_what, body) => {
  await start(request =>
    request.send(
      `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: ${body.length}\r\n\r\n`,
      body,
    ),
  )
  const response = await get(gateway.port, WORKSPACE_PATH, { 'accept-encoding': 'gzip' })
  expect(response).toMatchObject({ status: 200, complete: true })
  expect(response.headers['content-encoding']).toBe('gzip')
  expect(response.body.equals(body)).toBe(true)
})

test('errors of the upstream cause no additional requests', async () => {
  const statuses = [429, 500, 502, 503]
  await start(request =>
    request.send(`HTTP/1.1 ${statuses[request.number % 4]} No\r\nContent-Length: 0\r\n\r\n`),
  )
  const responses = await Promise.all(Array.from({ length: 200 }, send))
  expect(responses.filter(({ status }) => status < 400)).toEqual([])
  expect(upstream.requests).toHaveLength(200)
})

test('a length may end with spaces: they belong neither to it nor to the body', async () => {
  const bodies = ['{}', `"${'a'.repeat(300_000)}"`, '']
  const lengthOf = (body: string) => `Content-Length: ${body.length}  \r\n\r\n`
  await start(({ number, send }) => {
    const body = bodies[number] ?? '{}'
    send(`HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n${lengthOf(body)}`, body)
  })
  for (const body of bodies) {
    expect(await send()).toMatchObject({ status: 200, complete: true, text: body })
  }
  upstream.script = ({ send, socket }) => {
    send(`HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n${lengthOf('1234')}`, '{')
    socket.end()
  }
  expect(await send()).toMatchObject({ complete: false })
  expect(await errorsOf('truncated')).toBe(1)
})

test('up to ten interim responses are skipped', async () => {
  await start(request => request.send('HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n'.repeat(10), json('{}')))
  expect(await send()).toMatchObject({ status: 200, text: '{}' })
})

test('a 100 that was not asked for is skipped like any interim response, wherever it is split', async () => {
  const bytes = `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100\r\n\r\n${json('{}')}`
  await start(({ number, send }) => send(bytes.slice(0, number), bytes.slice(number)), { connections: 1 })
  for (let cut = 0; cut < 60; cut++) expect(await send()).toMatchObject({ status: 200, text: '{}' })
  expect(upstream.sockets).toHaveLength(1)
})

test('an incomplete head is a 502', async () => {
  await start(request => request.socket.end('HTTP/1.1 200 OK\r\nContent-Ty'))
  expect(await send()).toMatchObject({ status: 502, text: denial('upstream_error') })
})

test('a 304 may have a Content-Length without a body', async () => {
  await start(request => request.send('HTTP/1.1 304 Same\r\nETag: "1"\r\nContent-Length: 1234\r\n\r\n'))
  for (const _ of [1, 2]) {
    const response = await send()
    expect(response).toMatchObject({ status: 304, text: '', complete: true })
    expect(response.headers).toMatchObject({ etag: '"1"' })
    expect(response.headers).not.toHaveProperty('cache-control')
    expect(response.headers).not.toHaveProperty('content-length')
  }
  expect(await metricSum(gateway.metrics, 'postern_upstream_errors_total', {})).toBe(0)
})

test('the body of a 204 is not read as the next response', async () => {
  await start(request => {
    const body = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n"poison"'
    request.send(request.number === 0 ? `HTTP/1.1 204 No\r\n\r\n${body}` : json('"mine"'))
  })
  expect(await send()).toMatchObject({ status: 204, text: '' })
  expect(await send()).toMatchObject({ status: 200, text: '"mine"' })
})

test.each([
  'Content-Length: 0\r\n\r\n',
  'Content-Length: 2\r\n\r\nno',
  'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'Transfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n',
])(
  'a 205 has no body, and says so by its length, with each form of a body from the upstream: %j',
  async body => {
    const reset = `HTTP/1.1 205 Reset\r\nContent-Type: text/html\r\n${body}`
    await start(request => request.send(request.number === 0 ? reset : json('"mine"')))
    const response = await send()
    expect(response).toMatchObject({ status: 205, text: '', complete: true })
    expect(response.headers).toMatchObject({ 'content-length': '0' })
    expect(await send()).toMatchObject({ status: 200, text: '"mine"' })
  },
)

test('an unsolicited response closes its connection and reaches no client', async () => {
  await start(request => request.send(json(`"${request.number}"`)), { connections: 1 })
  expect((await send()).text).toBe('"0"')
  upstream.sockets[0]?.write(json('"poison"'))
  await upstream.disconnected(1)
  expect((await send()).text).toBe('"1"')
})

test('bytes beyond the declared length close the connection and reach no client', async () => {
  await start(request =>
    request.send(`${json(`"${request.number}"`)}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`),
  )
  expect((await send()).text).toBe('"0"')
  await upstream.disconnected(1)
  expect((await send()).text).toBe('"1"')
})

const half = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'
test.each<[string, string, 'end' | 'resetAndDestroy']>([
  ['a length with fewer bytes', `${half}Content-Length: 100\r\n\r\n{"half":`, 'end'],
  ['a length with fewer bytes, and a reset', `${half}Content-Length: 100\r\n\r\n{"half":`, 'resetAndDestroy'],
  ['a chunk with fewer bytes', `${half}Transfer-Encoding: chunked\r\n\r\n64\r\n{"half":`, 'end'],
  ['chunks without the last', `${half}Transfer-Encoding: chunked\r\n\r\n8\r\n{"half":\r\n`, 'end'],
  [
    'chunks without the last, closing',
    `${half}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{"half":\r\n`,
    'end',
  ],
])('%s closes the client’s connection: the response never looks complete', async (_name, bytes, how) => {
  await start(request => {
    request.send(bytes)
    interrupt = () => request.socket[how]()
  })
  let interrupt = () => {}
  const socket = connect(gateway.port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(`GET ${WORKSPACE_PATH} HTTP/1.1\r\nHost: x\r\n\r\n`)
  let text = ''
  socket.on('data', chunk => {
    text += chunk.toString()
    if (text.includes('{"half":')) interrupt()
  })
  await new Promise(resolve => socket.on('close', resolve))
  expect(text).toContain('HTTP/1.1 200 OK')
  expect(text).not.toMatch(/\r\n0\r\n\r\n$/)
  expect(await metricSum(gateway.metrics, 'postern_upstream_errors_total', {})).toBe(1)
})

test('an upstream that resets connections of clients that read nothing fails their responses alone', async () => {
  const uncaught: unknown[] = []
  const note = (error: unknown) => uncaught.push(error)
  process.on('uncaughtException', note)
  const body = Buffer.alloc(4 * 1024 * 1024, 'a')
  const head = `${half}Connection: close\r\nContent-Length: ${2 * body.length}\r\n\r\n`
  await start(request => request.send(head, body))
  const clients = Array.from({ length: 4 }, () => connect(gateway.port, '127.0.0.1').pause())
  for (const client of clients) {
    client.on('error', () => {}).write(`GET ${WORKSPACE_PATH} HTTP/1.1\r\nHost: x\r\n\r\n`)
  }
  await upstream.received(clients.length)
  const sockets = upstream.requests.map(({ socket }) => socket)
  await until('all is sent', () => sockets.every(({ writableLength }) => writableLength === 0))
  await until('each response has begun', () =>
    gateway.requests.every(({ observation }) => observation.phase === 'streaming'),
  )
  for (const socket of sockets) socket.resetAndDestroy()
  await pause(100)
  await Promise.all(clients.map(client => once(client.resume(), 'close')))
  process.off('uncaughtException', note)
  expect(uncaught).toEqual([])
  expect(await errorsOf('truncated')).toBe(clients.length)
})

test('an HTTP/1.0 client, whose body ends with the connection, gets a reset if the upstream fails', async () => {
  await start(request => request.socket.end(`${half}Transfer-Encoding: chunked\r\n\r\n8\r\n{"half":\r\n`))
  const response = await exchangeRaw(gateway.port, `GET ${WORKSPACE_PATH} HTTP/1.0\r\nHost: x\r\n\r\n`)
  expect(response.ended).toBe('reset')
})

test('invalid bytes between chunks close the client’s connection', async () => {
  await start(request => request.send(`${half}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n`))
  const response = await exchangeRaw(gateway.port, `GET ${WORKSPACE_PATH} HTTP/1.1\r\nHost: x\r\n\r\n`)
  expect(response.text).not.toMatch(/\r\n0\r\n\r\n$/)
  expect(await errorsOf('protocol')).toBe(1)
})

test('a 4xx keeps its status; of its body only code and error pass', async () => {
  const body = '{"code":"quota","error":"Used up","stack":"at 10.0.0.1"}'
  await start(request =>
    request.send(
      `HTTP/1.1 422 No\r\nServer: nginx\r\nSet-Cookie: a=b\r\nRetry-After: 3\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    ),
  )
  const response = await send()
  expect(response).toMatchObject({ status: 422, text: '{"code":"quota","error":"Used up"}' })
  expect(response.headers).toMatchObject({ 'retry-after': '3', 'cache-control': 'no-store' })
  expect(response.headers).not.toHaveProperty('server')
  expect(response.headers).not.toHaveProperty('set-cookie')
})

test('a 4xx whose body is too long gets the default error', async () => {
  await start(request => {
    request.send('HTTP/1.1 409 No\r\nTransfer-Encoding: chunked\r\n\r\n')
    for (let sent = 0; sent < 40; sent++) request.send('1000\r\n', Buffer.alloc(4096, 0x20), '\r\n')
  })
  const response = await send()
  expect(response.status).toBe(409)
  expect(JSON.parse(response.text)).toMatchObject({ code: 'upstream_rejected' })
  await upstream.disconnected(1)
})

test('a 4xx with an incomplete body keeps its status', async () => {
  await start(request => request.socket.end('HTTP/1.1 409 No\r\nContent-Length: 50\r\n\r\n{"code":"a"'))
  expect(await send()).toMatchObject({ status: 409 })
})

test('a request on a stale connection is retried once, if no byte of a response has arrived', async () => {
  await start(request => {
    if (request.numberOnConnection === 1) request.socket.resetAndDestroy()
    else request.send(json(`"${request.number}"`))
  })
  expect((await send()).text).toBe('"0"')
  expect((await send()).text).toBe('"2"')
  expect(upstream.requests).toHaveLength(3)
  expect(await retries('success')).toBe(1)
  expect(await metricSum(gateway.metrics, 'postern_upstream_errors_total', {})).toBe(0)
})

test('a connection that closes on its second request counts as stale', async () => {
  await start(request => {
    if (request.numberOnConnection === 1) request.socket.end()
    else request.send(json(`"${request.number}"`))
  })
  expect((await send()).text).toBe('"0"')
  expect((await send()).text).toBe('"2"')
})

test('a failed retry is not retried: at most two requests for one', async () => {
  await start(request => {
    if (request.number === 0) request.send(json('{}'))
    else request.socket.resetAndDestroy()
  })
  expect((await send()).status).toBe(200)
  expect((await send()).status).toBe(502)
  expect(upstream.requests).toHaveLength(3)
  expect(await retries('failure')).toBe(1)
})

test('a retry uses a new connection, not another stale one: at most two requests for one', async () => {
  let pending: ScriptedRequest[] = []
  await start(request => {
    if (request.numberOnConnection > 0) request.socket.resetAndDestroy()
    else if (request.number < 2) pending.push(request)
    else request.send(json('"fresh"'))
    if (pending.length < 2) return
    for (const each of pending) each.send(json('{}'))
    pending = []
  })
  await Promise.all([send(), send()])
  expect(upstream.sockets).toHaveLength(2)
  expect(await send()).toMatchObject({ status: 200, text: '"fresh"' })
  expect(upstream.requests).toHaveLength(4)
  expect(await retries('success')).toBe(1)
})

test('a request on a new connection that is reset is not retried', async () => {
  await start(request => request.socket.resetAndDestroy())
  expect((await send()).status).toBe(502)
  expect(upstream.requests).toHaveLength(1)
  expect(await errorsOf('reset')).toBe(1)
})

test('a request is not retried after the first byte of its response', async () => {
  await start(request => {
    if (request.number === 0) request.send(json('{}'))
    else request.socket.end('H')
  })
  expect((await send()).status).toBe(200)
  expect((await send()).status).toBe(502)
  expect(upstream.requests).toHaveLength(2)
})

test('an upstream that recovers is used again at once', async () => {
  await start(request => request.send(json('{}')))
  const { port } = upstream
  await upstream.stop()
  for (const _ of Array(20)) expect((await send()).status).toBe(502)
  const server = createServer(socket => socket.on('data', () => socket.write(json('"back"'))))
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve))
  expect((await send()).text).toBe('"back"')
  await gateway.stop()
  await new Promise(resolve => server.close(resolve))
})

test('an incomplete response of the upstream counts as a 502 and not as an abort of the client', async () => {
  await start(request => {
    request.send('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n[1,')
    request.socket.end()
  })
  await exchangeRaw(gateway.port, `GET ${WORKSPACE_PATH} HTTP/1.1\r\nHost: gw\r\n\r\n`)
  expect(await errorsOf('truncated')).toBe(1)
  expect(await metricSum(gateway.metrics, 'postern_http_client_aborts_total', {})).toBe(0)
  const asBadGateway = { code: '502', source: 'upstream' }
  const counted = () => metricSum(gateway.metrics, 'postern_http_requests_total', asBadGateway)
  await expect.poll(counted).toBe(1)
  expect(gateway.requests[0]?.observation).toMatchObject({
    truncated: true,
    fault: 'truncated',
    responseBytes: 3,
  })
})

test.each([
  ['a redirect', '302 Found', 'application/json', 502, 'status_302'],
  ['a rejection of the gateway', '401 Unauthorized', 'application/json', 502, 'status_401'],
  ['a body that is not JSON', '200 OK', 'text/html', 502, 'not_json'],
  ['no such resource', '404 Not Found', 'application/json', 404, null],
  ['an upstream that is unavailable', '503 Service Unavailable', 'application/json', 503, null],
])(
  'the log has the status of a response that no client may see: %s',
  async (_, line, type, status, fault) => {
    await start(request =>
      request.send(`HTTP/1.1 ${line}\r\nContent-Type: ${type}\r\nContent-Length: 2\r\n\r\n{}`),
    )
    expect((await send()).status).toBe(status)
    const upstreamStatus = Number.parseInt(line, 10)
    expect(gateway.requests[0]?.observation).toMatchObject({ upstreamStatus, fault })
  },
)

test('the log has no upstream status if the response was passed on', async () => {
  await start(request =>
    request.send('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}'),
  )
  expect((await send()).status).toBe(200)
  expect(gateway.requests[0]?.observation).toMatchObject({ upstreamStatus: null, fault: null })
})
