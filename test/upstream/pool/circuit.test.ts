import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  type ForwardingApp,
  metricSum,
  startForwardingApp,
  WORKSPACE_PATH,
} from '../../support/forwarding-app.ts'
import { freePort } from '../../support/free-port.ts'
import { get } from '../../support/http-client.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { RecordingUpstream } from '../../support/recording-upstream.ts'
import { until } from '../../support/until.ts'

const OPEN_MS = 60_000
const HEADERS_TIMEOUT_MS = 5_000
let clock: ManualClock
let gateway: ForwardingApp
beforeEach(() => {
  clock = new ManualClock()
})
afterEach(() => gateway.stop())

const send = async () => (await get(gateway.port, WORKSPACE_PATH)).status
const state = (name: string) =>
  metricSum(gateway.metrics, 'postern_upstream_circuit_state', { upstream: 'default', state: name })

test('requests to an upstream that is down are soon denied at once, and sent again when it is back', async () => {
  const port = await freePort()
  gateway = await startForwardingApp(
    `http://127.0.0.1:${port}`,
    { circuit: { failures: 3, openMs: OPEN_MS } },
    { clock },
  )
  expect([await send(), await send(), await send()]).toEqual([502, 502, 502])
  expect(await send()).toBe(503)
  expect(await state('open')).toBe(1)
  expect(await metricSum(gateway.metrics, 'postern_upstream_errors_total', { kind: 'circuit_open' })).toBe(1)

  const upstream = await RecordingUpstream.start(port)
  expect(await send()).toBe(503)
  clock.advance(OPEN_MS)
  expect(await send()).toBe(200)
  expect(await state('closed')).toBe(1)
  // Requests that arrived while it was down were denied then, not queued.
  expect(upstream.requests).toHaveLength(1)
  await upstream.stop()
})

test('while the circuit is half open, one request is the probe, and others are denied at once', async () => {
  const upstream = await RecordingUpstream.start()
  const release = Promise.withResolvers<void>()
  upstream.hold = () => new Promise(() => {})
  const settings = { circuit: { failures: 2, openMs: OPEN_MS }, headersTimeoutMs: HEADERS_TIMEOUT_MS }
  gateway = await startForwardingApp(upstream.url, settings, { clock })
  const failing = [send(), send()]
  await until('the upstream has both', () => upstream.requests.length === 2)
  clock.advance(HEADERS_TIMEOUT_MS)
  expect(await Promise.all(failing)).toEqual([504, 504])
  expect(await send()).toBe(503)

  clock.advance(OPEN_MS)
  expect(await state('half_open')).toBe(1)
  upstream.hold = () => release.promise
  const before = upstream.requests.length
  const probe = send()
  await until('the probe has arrived', () => upstream.requests.length === before + 1)
  expect([await send(), await send()]).toEqual([503, 503])
  release.resolve()
  expect(await probe).toBe(200)
  expect(await send()).toBe(200)
  await upstream.stop()
})

test('error responses of the upstream do not open the circuit', async () => {
  const upstream = await RecordingUpstream.start()
  upstream.answer = () => 'HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n'
  gateway = await startForwardingApp(upstream.url, { circuit: { failures: 2, openMs: 60_000 } })
  for (let request = 0; request < 5; request++) expect(await send()).toBe(502)
  expect(upstream.requests).toHaveLength(5)
  await upstream.stop()
})
