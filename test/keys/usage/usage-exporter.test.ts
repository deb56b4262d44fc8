import { afterEach, beforeEach, expect, test } from 'vitest'
import { NO_PROXIES } from '../../../src/domain/proxy.ts'
import { UsageExporter } from '../../../src/keys/usage/usage-exporter.ts'
import type { UsageReport } from '../../../src/keys/usage/usage-report.ts'
import { FailureLog } from '../../../src/observability/failure-log.ts'
import { createMetrics, type Metrics } from '../../../src/observability/metrics/metrics.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { metricValue } from '../../support/metric-value.ts'
import { UsageCollector } from '../../support/usage-collector.ts'

let collector: UsageCollector
let log: LogSpy
let metrics: Metrics
let exporter: UsageExporter
beforeEach(async () => {
  collector = await UsageCollector.start()
  log = new LogSpy()
  metrics = createMetrics()
  const failures = new FailureLog('usage export', log, new ManualClock())
  exporter = new UsageExporter({
    url: collector.url,
    failures,
    metrics,
    timeoutMs: 2_000,
    proxies: NO_PROXIES,
  })
})
afterEach(() => collector.stop())

function report(sequence: number): UsageReport {
  const count = { workspaceId: 'ws_1', route: 'files', minute: 29_000_000, count: 3 }
  return {
    gateway: 'gateway:1',
    sequence,
    used: { key_1: 1 },
    counts: [
      { keyId: 'key_1', code: 'ok', ...count },
      { keyId: null, code: 'scope_missing', ...count },
    ],
    refusals: [],
  }
}

const outcomes = (outcome: string) => metricValue(metrics.usageExports, { outcome })

test('each count is one line of JSON, which holds nothing of a refusal and can be recognized when it comes twice', async () => {
  exporter.add(report(7))
  await exporter.send()
  expect([collector.method, collector.contentType]).toEqual(['POST', 'application/x-ndjson'])
  const event = { at: '2025-02-19T21:20:00.000Z', workspaceId: 'ws_1', route: 'files', count: 3 }
  const source = { gateway: 'gateway:1', sequence: 7 }
  expect(collector.accepted).toEqual([
    { ...event, keyId: 'key_1', code: 'ok', ...source, index: 0 },
    { ...event, keyId: null, code: 'scope_missing', ...source, index: 1 },
  ])
})

test.each([500, 503, 429, 404])(
  'after a response with %i the same lines are sent again, in order',
  async status => {
    collector.status = status
    exporter.add(report(1))
    await exporter.send()
    exporter.add(report(2))
    collector.status = 200
    await exporter.send()
    const [first, again, next] = collector.bodies
    expect(again).toBe(first)
    expect(next).toContain('"sequence":2')
    expect(collector.bodies).toHaveLength(3)
    expect([await outcomes('failed'), await outcomes('accepted')]).toEqual([1, 2])
    expect(log.text).toContain(`status ${status}`)
  },
)

test('lines that the collector will never accept are dropped, and later ones are sent', async () => {
  collector.status = 400
  exporter.add(report(1))
  await exporter.send()
  collector.status = 200
  exporter.add(report(2))
  await exporter.send()
  expect(collector.accepted.map(({ sequence }) => sequence)).toEqual([2, 2])
  expect(await outcomes('dropped')).toBe(1)
})

test('while the collector is down, the latest 50 reports wait', async () => {
  collector.status = 503
  for (let sequence = 1; sequence <= 60; sequence++) exporter.add(report(sequence))
  await exporter.send()
  expect(await outcomes('dropped')).toBe(10)
  expect(await outcomes('failed')).toBe(1)
  collector.status = 200
  await exporter.send()
  expect(new Set(collector.accepted.map(({ sequence }) => sequence))).toEqual(
    new Set(Array.from({ length: 50 }, (_, index) => index + 11)),
  )
})

test('at the end the rest is sent', async () => {
  exporter.add(report(1))
  await exporter.stop(AbortSignal.timeout(30_000))
  expect(collector.accepted).toHaveLength(2)
})
