import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { NO_PROXIES } from '../../../src/domain/proxy.ts'
import { UsageExporter } from '../../../src/keys/usage/usage-exporter.ts'
import type { UsageReport } from '../../../src/keys/usage/usage-report.ts'
import { FailureLog } from '../../../src/observability/failure-log.ts'
import { createMetrics, type Metrics } from '../../../src/observability/metrics/metrics.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { metricValue } from '../../support/metric-value.ts'
import { until } from '../../support/until.ts'

let log: LogSpy
let metrics: Metrics
let received: ServerResponse[]
let respond: (response: ServerResponse) => void
const server = createServer((request, response) => {
  request.resume()
  received.push(response)
  respond(response)
})
let exporter: UsageExporter
beforeEach(async () => {
  log = new LogSpy()
  metrics = createMetrics()
  received = []
  respond = response => response.writeHead(204).end()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  exporter = create()
})
afterEach(() => {
  server.closeAllConnections()
  server.close()
})

function create(timeoutMs = 30_000): UsageExporter {
  const failures = new FailureLog('usage export', log, new ManualClock())
  // A server that listens on TCP has such an address.
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/usage`
  return new UsageExporter({ url, failures, metrics, timeoutMs, proxies: NO_PROXIES })
}

function report(sequence: number, requests = 1): UsageReport {
  const count = { keyId: 'key_1', workspaceId: 'ws_1', route: 'files', code: 'ok', minute: 1, count: 3 }
  return { gateway: 'g', sequence, used: {}, refusals: [], counts: requests === 0 ? [] : [count] }
}

const outcome = (name: string) => metricValue(metrics.usageExports, { outcome: name })

test.each([200, 299])('what gets %i is not sent again', async status => {
  respond = response => response.writeHead(status).end()
  exporter.add(report(1))
  await exporter.send()
  await exporter.send()
  expect([received.length, await outcome('accepted')]).toEqual([1, 1])
})

test.each([301, 401, 403, 404, 408, 425, 429, 500])('what gets %i is sent again', async status => {
  respond = response => response.writeHead(status).end()
  exporter.add(report(1))
  await exporter.send()
  await exporter.send()
  expect([received.length, await outcome('failed')]).toEqual([2, 2])
  const reason = `The collector responded with status ${status}`
  expect(log.lines).toMatchObject([{ level: 'warn', fields: { reason } }])
  respond = response => response.writeHead(200).end()
  await exporter.send()
  expect(log.count('usage export recovered')).toBe(1)
})

test.each([400, 402, 499])('what gets %i is dropped', async status => {
  respond = response => response.writeHead(status).end()
  exporter.add(report(1))
  await exporter.send()
  await exporter.send()
  expect([received.length, await outcome('dropped')]).toEqual([1, 1])
})

test('a report without counts has no lines', async () => {
  exporter.add(report(1, 0))
  await exporter.send()
  expect(received).toEqual([])
})

test('calls while lines are sent join them', async () => {
  exporter.add(report(1))
  await Promise.all([exporter.send(), exporter.send()])
  expect(received).toHaveLength(1)
})

test('a collector that does not respond has failed after the timeout', async () => {
  exporter = create(50)
  respond = () => {}
  exporter.add(report(1))
  await exporter.send()
  expect(await outcome('failed')).toBe(1)
  expect(log.lines).toMatchObject([{ level: 'warn', fields: { reason: expect.stringMatching(/timeout/i) } }])
})

test('of more than 50 waiting reports the oldest is dropped, also while it is sent, and no other one with it', async () => {
  respond = () => {}
  exporter.add(report(1))
  const sending = exporter.send()
  await until('the first one is sent', () => received.length === 1)
  for (let sequence = 2; sequence <= 51; sequence++) exporter.add(report(sequence))
  expect(await outcome('dropped')).toBe(1)
  respond = response => response.writeHead(204).end()
  received[0]?.writeHead(204).end()
  await sending
  expect([received.length, await outcome('accepted'), await outcome('dropped')]).toEqual([51, 51, 1])
})

test('at the end what is being sent is waited for, and the rest is sent', async () => {
  respond = () => {}
  exporter.add(report(1))
  void exporter.send()
  await until('the first one is sent', () => received.length === 1)
  exporter.add(report(2))
  respond = response => response.writeHead(204).end()
  const stopped = exporter.stop(new AbortController().signal)
  received[0]?.writeHead(204).end()
  await stopped
  expect(await outcome('accepted')).toBe(2)
})

test('a collector that does not respond delays the end until the deadline', async () => {
  respond = () => {}
  exporter.add(report(1))
  void exporter.send()
  await until('the first one is sent', () => received.length === 1)
  const deadline = new AbortController()
  const stopped = exporter.stop(deadline.signal)
  deadline.abort()
  await stopped
  expect(received).toHaveLength(1)
})

test('the last lines are given up at the deadline', async () => {
  respond = () => {}
  exporter.add(report(1))
  const deadline = new AbortController()
  const stopped = exporter.stop(deadline.signal)
  await until('it is sent', () => received.length === 1)
  deadline.abort(new Error('late'))
  await stopped
  expect(await outcome('failed')).toBe(1)
})
