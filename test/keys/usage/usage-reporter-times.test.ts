import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { KeyServiceRequest, KeyServiceResponse } from '../../../src/keys/tiers/key-service-client.ts'
import { UsageCounts } from '../../../src/keys/usage/usage-counts.ts'
import { UsageReporter } from '../../../src/keys/usage/usage-reporter.ts'
import { FailureLog } from '../../../src/observability/failure-log.ts'
import { createMetrics, type Metrics } from '../../../src/observability/metrics/metrics.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { metricValue } from '../../support/metric-value.ts'
import { usageRequest } from '../../support/usage-request.ts'

const PERIOD_MS = 10_000
const NEVER = new Promise<never>(() => {})

let clock: ManualClock
let log: LogSpy
let metrics: Metrics
let counts: UsageCounts
let calls: string[]
let requests: KeyServiceRequest[]
let reply: () => Promise<KeyServiceResponse>
let reporter: UsageReporter

beforeEach(() => {
  vi.useFakeTimers()
  // Its own timer is one of Node, which the test does not advance.
  vi.spyOn(AbortSignal, 'timeout').mockImplementation(ms => {
    const controller = new AbortController()
    setTimeout(() => controller.abort(new Error('late')), ms)
    return controller.signal
  })
  clock = new ManualClock()
  log = new LogSpy()
  metrics = createMetrics()
  counts = new UsageCounts({ clock, metrics, countsRequests: true, notesRefusals: true, maxEntries: 100 })
  calls = []
  requests = []
  reply = async () => ({ status: 200, text: '{}' })
  reporter = create()
})
afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

function create(timeoutMs = 100): UsageReporter {
  return new UsageReporter({
    client: {
      request: async (request, signal) => {
        calls.push('report')
        requests.push(request)
        const { promise: late, reject } = Promise.withResolvers<never>()
        signal.addEventListener('abort', () => reject(signal.reason))
        return Promise.race([reply(), late])
      },
    },
    exporter: {
      add: () => void calls.push('export'),
      send: async () => void calls.push('send'),
      stop: async (deadline: AbortSignal) => {
        calls.push('last export')
        await new Promise(resolve => deadline.addEventListener('abort', resolve))
      },
      // The reporter uses no other part of it.
    } as unknown as NonNullable<ConstructorParameters<typeof UsageReporter>[0]['exporter']>,
    clock,
    counts,
    failures: new FailureLog('usage report', log, clock),
    metrics,
    gateway: 'gateway-1',
    periodMs: PERIOD_MS,
    timeoutMs,
    random: () => 0.5,
  })
}

const use = (keyId = 'key_1') => counts.record(usageRequest({ keyId }), 200, false)

test('reports and exports go out once a period, and starting twice changes nothing', async () => {
  reporter.start()
  reporter.start()
  for (const [ms, times] of [
    [PERIOD_MS / 2 - 1, 0],
    [1, 1],
    [PERIOD_MS - 1, 1],
    [1, 2],
    [PERIOD_MS, 3],
  ] as const) {
    use()
    await vi.advanceTimersByTimeAsync(ms)
    expect(calls.filter(call => call === 'report')).toHaveLength(times)
    expect(calls.filter(call => call === 'send')).toHaveLength(times)
  }
})

test('each count is exported once, whether or not its report is acknowledged', async () => {
  reply = async () => ({ status: 503, text: '' })
  use()
  await reporter.report()
  await reporter.report()
  expect(calls).toEqual(['export', 'report', 'report'])
})

test('a response is read up to 64 KiB: it names 20 refused entries at most', async () => {
  use()
  await reporter.report()
  expect(requests).toMatchObject([{ method: 'POST', path: '/usage', maxBytes: 65_536 }])
})

test('calls during a report join it', async () => {
  use()
  await Promise.all([reporter.report(), reporter.report(), reporter.report()])
  expect(requests).toHaveLength(1)
})

test.each([200, 204, 299])(
  'a report that gets %i is settled, and clears an earlier failure',
  async status => {
    reply = async () => ({ status: 500, text: '' })
    use()
    await reporter.report()
    expect(log.lines.at(-1)).toMatchObject({
      fields: { reason: 'The key service responded with status 500' },
    })
    expect(counts.isLate).toBe(true)
    reply = async () => ({ status, text: '' })
    await reporter.report()
    await reporter.report()
    expect(requests).toHaveLength(2)
    expect(counts.isLate).toBe(false)
    expect(log.count('usage report recovered')).toBe(1)
  },
)

test.each([199, 300, 401, 403, 408, 425, 429, 500])('a report that gets %i is repeated', async status => {
  reply = async () => ({ status, text: '' })
  use()
  await reporter.report()
  await reporter.report()
  expect(requests[1]?.body).toEqual(requests[0]?.body)
  expect(requests).toHaveLength(2)
})

test.each([400, 402, 499])('a report that gets %i is dropped, and says so', async status => {
  reply = async () => ({ status: requests.length === 1 ? status : 200, text: '' })
  use()
  await reporter.report()
  const reason = `The key service rejected a report with status ${status}`
  expect(log.lines).toMatchObject([{ fields: { reason } }, { message: 'usage report recovered' }])
  // The second report says how much the first one lost.
  for (const outcome of ['rejected', 'accepted']) {
    expect(await metricValue(metrics.usageReportsSent, { outcome })).toBe(1)
  }
})

test('a call that is not offered is neither a success nor a failure', async () => {
  reply = async () => ({ status: 404, text: '' })
  use()
  await reporter.report()
  for (const outcome of ['accepted', 'rejected', 'failed']) {
    expect(await metricValue(metrics.usageReportsSent, { outcome })).toBe(0)
  }
})

test('every outcome has a series from the start, and the entries in memory are shown', async () => {
  const series = async (name: 'usageReportsSent' | 'usageExports') => {
    const { values } = await metrics[name].get()
    return values.map(({ labels, value }) => `${labels['outcome']} ${value}`).sort()
  }
  expect(await series('usageReportsSent')).toEqual(['accepted 0', 'failed 0', 'rejected 0'])
  expect(await series('usageExports')).toEqual(['accepted 0', 'dropped 0', 'failed 0'])
  expect(await metricValue(metrics.usageEntries)).toBe(0)
  use()
  expect(await metricValue(metrics.usageEntries)).toBe(2)
})

test('the delay counts from the first failure in a row', async () => {
  const delay = () => metricValue(metrics.usageReportDelay)
  expect(await delay()).toBe(0)
  reply = async () => ({ status: 503, text: '' })
  use()
  await reporter.report()
  clock.advance(2_000)
  await reporter.report()
  clock.advance(3_000)
  expect(await delay()).toBe(5)
})

/** Whether the reporter has stopped after so long. */
async function hasStopped(stopped: Promise<void>, ms: number): Promise<boolean> {
  let isOver = false
  void stopped.then(() => {
    isOver = true
  })
  await vi.advanceTimersByTimeAsync(ms)
  return isOver
}

test('a stopping gateway sends no further periods, its last report, and then what waits for the collector', async () => {
  reporter.start()
  use()
  const stopped = reporter.stop()
  await vi.advanceTimersByTimeAsync(0)
  expect(calls).toEqual(['export', 'report', 'last export'])
  await vi.advanceTimersByTimeAsync(5 * PERIOD_MS)
  await stopped
  expect(calls).toEqual(['export', 'report', 'last export'])
})

test.each([
  [100, 100],
  [5_000, 2_000],
])('with a timeout of %i ms the last reports take at most %i ms', async (timeoutMs, mostMs) => {
  reporter = create(timeoutMs)
  reply = () => NEVER
  use()
  const stopped = reporter.stop()
  expect(await hasStopped(stopped, mostMs - 1)).toBe(false)
  expect(calls).not.toContain('last export')
  expect(await hasStopped(stopped, 1)).toBe(false)
  expect(calls).toContain('last export')
  expect(await hasStopped(stopped, 1_000)).toBe(true)
})
