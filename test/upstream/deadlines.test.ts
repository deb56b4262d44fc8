import { once } from 'node:events'
import { connect } from 'node:net'
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
import { ManualClock } from '../support/manual-clock.ts'
import {
  json,
  type Script,
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
const send = () => get(gateway.port, WORKSPACE_PATH)
const sendRaw = () => exchangeRaw(gateway.port, `GET ${WORKSPACE_PATH} HTTP/1.1\r\nHost: x\r\n\r\n`)
const denial = (code: string) => JSON.stringify({ code, error: 'Refused' })
const head = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'

/** Sends a request on a raw socket, for tests in which the client disconnects. */
function client() {
  const socket = connect(gateway.port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(`GET ${WORKSPACE_PATH} HTTP/1.1\r\nHost: x\r\n\r\n`)
  return socket
}

afterEach(async () => {
  await gateway.stop()
  await upstream.stop()
})

test('if the headers do not arrive in time, the client gets a 504 and the connection closes', async () => {
  const clock = new ManualClock()
  await start(() => {}, { headersTimeoutMs: 100 }, { clock })
  const sent = send()
  await upstream.received(1)
  clock.advance(100)
  expect(await sent).toMatchObject({ status: 504, text: denial('upstream_timeout') })
  expect(await errorsOf('headers_timeout')).toBe(1)
  expect(gateway.requests[0]?.observation.upstreamWaitMs).toBe(100)
  await upstream.disconnected(1)
})

test.each(['H', 'HTTP/1.1 20', 'HTTP/1.1 200 OK\r\n', 'HTTP/1.1 200 OK\r\nContent-Ty'])(
  'an incomplete head does not extend the deadline: %j',
  async bytes => {
    await start(request => request.send(bytes), { headersTimeoutMs: 100 })
    expect((await send()).status).toBe(504)
    await upstream.disconnected(1)
  },
)

test('a head that arrives byte by byte ends at its deadline', async () => {
  await start(
    request => {
      request.send('HTTP/1.1 200 OK\r\nX: ')
      const drip = setInterval(() => request.socket.write('y'), 10)
      request.socket.on('close', () => clearInterval(drip))
    },
    { headersTimeoutMs: 150 },
  )
  expect((await send()).status).toBe(504)
  await upstream.disconnected(1)
})

test('interim responses do not extend the deadline', async () => {
  await start(request => request.send('HTTP/1.1 102 Processing\r\n\r\n'), { headersTimeoutMs: 100 })
  expect((await send()).status).toBe(504)
})

test('the headers deadline includes the wait for a connection', async () => {
  const clock = new ManualClock()
  await start(() => {}, { connections: 1, headersTimeoutMs: 200 }, { clock })
  const sent = [send(), send(), send()]
  await until('all were sent or are queued', () => gateway.requests.length === sent.length)
  await upstream.received(1)
  clock.advance(200)
  expect((await Promise.all(sent)).map(({ status }) => status)).toEqual([504, 504, 504])
  for (const { observation } of gateway.requests) expect(observation.upstreamWaitMs).toBe(200)
})

test('a body that stalls is aborted, and the client’s connection closes', async () => {
  await start(request => request.send(`${head}Content-Length: 100\r\n\r\n{`), { bodyIdleTimeoutMs: 100 })
  const response = await sendRaw()
  expect(response.text.endsWith('\r\n\r\n{')).toBe(true)
  expect(await errorsOf('body_timeout')).toBe(1)
  await upstream.disconnected(1)
})

test('a body that arrives byte by byte ends at the total deadline', async () => {
  await start(
    request => {
      request.send(`${head}Transfer-Encoding: chunked\r\n\r\n`)
      const drip = setInterval(() => request.socket.write('1\r\n \r\n'), 20)
      request.socket.on('close', () => clearInterval(drip))
    },
    { totalTimeoutMs: 400 },
  )
  expect((await sendRaw()).text).not.toMatch(/\r\n0\r\n\r\n$/)
  expect(await errorsOf('total_timeout')).toBe(1)
  await upstream.disconnected(1)
})

test('a discarded body that never ends is aborted', async () => {
  await start(request => request.send('HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\n'), {
    bodyIdleTimeoutMs: 100,
    connections: 1,
  })
  expect((await send()).status).toBe(502)
  await upstream.disconnected(1)
  expect(await metricSum(gateway.metrics, 'postern_upstream_errors_total', {})).toBe(0)
})

test('a client that disconnects before the response aborts its request', async () => {
  await start(() => {}, { connections: 1 })
  const leaving = client()
  await upstream.received(1)
  leaving.destroy()
  await upstream.disconnected(1)
  upstream.script = request => request.send(json('"next"'))
  expect((await send()).text).toBe('"next"')
  expect(await metricSum(gateway.metrics, 'postern_upstream_errors_total', {})).toBe(0)
})

test('a client that disconnects during the response aborts it', async () => {
  await start(request => request.send(`${head}Content-Length: 100\r\n\r\n{`))
  const leaving = client()
  await once(leaving, 'data')
  leaving.destroy()
  await upstream.disconnected(1)
})

test('a hundred clients that disconnect do not starve others', async () => {
  await start(() => {}, { connections: 2, headersTimeoutMs: 60_000, totalTimeoutMs: 60_000 })
  const leaving = Array.from({ length: 100 }, client)
  await upstream.received(2)
  while (gateway.requests.length < 100) await new Promise(setImmediate)
  for (const socket of leaving) socket.destroy()
  await upstream.disconnected(2)
  upstream.script = request => request.send(json('"next"'))
  expect((await send()).text).toBe('"next"')
  expect(upstream.requests.length).toBeLessThanOrEqual(5)
})

test('a queued request whose client disconnects is never sent', async () => {
  let respondToFirst = () => {}
  await start(
    request => {
      if (request.number === 0) respondToFirst = () => request.send(json('"first"'))
      else request.send(json('"last"'))
    },
    { connections: 1 },
  )
  const first = send()
  await upstream.received(1)
  const waiting = client()
  while (gateway.requests.length < 2) await new Promise(setImmediate)
  expect(await metricSum(gateway.metrics, 'postern_upstream_queued_requests', {})).toBe(1)
  waiting.destroy()
  while ((await metricSum(gateway.metrics, 'postern_upstream_queued_requests', {})) > 0) {
    await new Promise(setImmediate)
  }
  respondToFirst()
  expect((await first).text).toBe('"first"')
  expect((await send()).text).toBe('"last"')
  expect(upstream.requests).toHaveLength(2)
  expect(upstream.sockets).toHaveLength(1)
})

test('a client that does not read pauses the upstream, and is disconnected at its deadline', async () => {
  let written = 0
  await start(
    request => {
      request.send(`${head}Content-Length: 200000000\r\n\r\n`)
      const pump = () => {
        while (written < 200_000_000 && !request.socket.destroyed) {
          written += 65_536
          if (!request.socket.write(Buffer.alloc(65_536))) break
        }
      }
      request.socket.on('drain', pump)
      pump()
    },
    { bodyIdleTimeoutMs: 150 },
    { clientStallMs: 400 },
  )
  const slow = client()
  slow.pause()
  await upstream.disconnected(1)
  expect(written).toBeLessThan(100_000_000)
  expect(await metricSum(gateway.metrics, 'postern_upstream_errors_total', {})).toBe(0)
  slow.resume()
  await once(slow, 'close')
})

test('closing the gateway aborts pending exchanges', async () => {
  await start(() => {})
  const waiting = client()
  await upstream.received(1)
  await gateway.stop()
  await upstream.disconnected(1)
  waiting.destroy()
})
