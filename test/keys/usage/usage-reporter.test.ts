import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  type KeyServiceRequest,
  type KeyServiceResponse,
  OversizedResponse,
} from '../../../src/keys/tiers/key-service-client.ts'
import { UsageCounts } from '../../../src/keys/usage/usage-counts.ts'
import type { UsageReport } from '../../../src/keys/usage/usage-report.ts'
import { UsageReporter } from '../../../src/keys/usage/usage-reporter.ts'
import { FailureLog } from '../../../src/observability/failure-log.ts'
import { createMetrics, type Metrics } from '../../../src/observability/metrics/metrics.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { metricValue } from '../../support/metric-value.ts'
import { usageRequest } from '../../support/usage-request.ts'

const PERIOD_MS = 10_000

let clock: ManualClock
let log: LogSpy
let metrics: Metrics
let counts: UsageCounts
/** Each as the bytes that were sent. */
let sent: string[]
let reply: () => Promise<KeyServiceResponse>
let reporter: UsageReporter

beforeEach(() => {
  clock = new ManualClock()
  log = new LogSpy()
  metrics = createMetrics()
  counts = new UsageCounts({ clock, metrics, countsRequests: true, notesRefusals: true, maxEntries: 100_000 })
  sent = []
  reply = async () => ({ status: 200, text: '{}' })
  reporter = create()
})
afterEach(() => vi.useRealTimers())

function create(random?: () => number): UsageReporter {
  const client = {
    request: async ({ body, path, method }: KeyServiceRequest, signal: AbortSignal) => {
      expect([method, path]).toEqual(['POST', '/usage'])
      sent.push(JSON.stringify(body))
      const { promise: late, reject } = Promise.withResolvers<never>()
      signal.addEventListener('abort', () => reject(signal.reason))
      return Promise.race([reply(), late])
    },
  }
  const failures = new FailureLog('usage report', log, clock)
  const gateway = { gateway: 'gateway-1', exporter: null, periodMs: PERIOD_MS }
  const parts = { ...gateway, client, clock, failures, metrics, counts }
  return new UsageReporter({ ...parts, timeoutMs: 100, ...(random === undefined ? {} : { random }) })
}

const reports = () => sent.map(text => JSON.parse(text) as UsageReport)

function use(keyId = 'key_1'): void {
  counts.record(usageRequest({ keyId }), 200, false)
}

test('a report names the gateway, and each has the next sequence number', async () => {
  use()
  await reporter.report()
  use()
  await reporter.report()
  expect(reports()).toMatchObject([
    { gateway: 'gateway-1', sequence: 1, used: { key_1: clock.wallMs() }, counts: [{ count: 1 }] },
    { gateway: 'gateway-1', sequence: 2, counts: [{ count: 1 }] },
  ])
})

test('a count names its key, or its workspace if it was counted without a key', async () => {
  counts = new UsageCounts({ clock, metrics, countsRequests: true, notesRefusals: true, maxEntries: 2 })
  reporter = create()
  use()
  use('key_2')
  await reporter.report()
  const minute = Math.floor(clock.wallMs() / 60_000)
  expect(reports()[0]?.counts).toEqual([
    { keyId: 'key_1', route: 'files', code: 'ok', minute, count: 1 },
    { workspaceId: 'ws_1', route: 'files', code: 'ok', minute, count: 1 },
  ])
})

describe('without requests', () => {
  test('an empty report is sent at the start and every third period, and says that there was nothing to report', async () => {
    const sentAfter: number[] = []
    for (let period = 0; period < 7; period++) {
      await reporter.report()
      sentAfter.push(sent.length)
      clock.advance(PERIOD_MS)
    }
    expect(sentAfter).toEqual([1, 1, 1, 2, 2, 2, 3])
    const empty = { gateway: 'gateway-1', used: {}, counts: [], refusals: [] }
    expect(reports()).toEqual([1, 2, 3].map(sequence => ({ ...empty, sequence })))
  })

  test('a timer that is a little early skips no period', async () => {
    await reporter.report()
    clock.advance(3 * PERIOD_MS - 20)
    await reporter.report()
    expect(sent).toHaveLength(2)
  })

  test('an empty report is due three periods after the last one with requests', async () => {
    use()
    await reporter.report()
    clock.advance(2 * PERIOD_MS)
    use()
    await reporter.report()
    for (let period = 0; period < 2; period++) {
      clock.advance(PERIOD_MS)
      await reporter.report()
    }
    expect(sent).toHaveLength(2)
    clock.advance(PERIOD_MS)
    await reporter.report()
    expect(reports().map(({ counts }) => counts.length)).toEqual([1, 1, 0])
  })

  test('requests are reported in their period, also after an empty report', async () => {
    await reporter.report()
    use()
    clock.advance(PERIOD_MS)
    await reporter.report()
    expect(reports()[1]).toMatchObject({ sequence: 2, counts: [{ count: 1 }] })
  })

  test('a stopping gateway says that there was nothing more, once it has been idle', async () => {
    await reporter.report()
    clock.advance(3 * PERIOD_MS)
    await reporter.stop()
    expect(sent).toHaveLength(2)
  })
})

test('many keys are reported in several reports of one period', async () => {
  for (let key = 0; key < 1_250; key++) use(`key_${key}`)
  await reporter.report()
  expect(reports().map(report => [report.sequence, report.counts.length])).toEqual([
    [1, 500],
    [2, 500],
    [3, 250],
  ])
})

test('requests that end during a report are reported in the next period, however many there are', async () => {
  let during = 0
  reply = async () => {
    if (during++ < 10) use(`key_${during}`)
    return { status: 200, text: '{}' }
  }
  use()
  await reporter.report()
  expect(sent).toHaveLength(2)
})

test('one report is sent per period, the first at a random time, so that gateways do not report together', () => {
  vi.useFakeTimers()
  reporter = create(() => 0.25)
  reporter.start()
  use()
  vi.advanceTimersByTime(2_499)
  expect(sent).toHaveLength(0)
  vi.advanceTimersByTime(1)
  expect(sent).toHaveLength(1)
})

describe('a report that was not acknowledged', () => {
  test.each([
    ['the key service is down', () => Promise.reject(new Error('ECONNREFUSED'))],
    ['it responds with 500', async () => ({ status: 500, text: '' })],
    ['it responds with 401', async () => ({ status: 401, text: '' })],
    ['it does not respond', () => new Promise<never>(() => {})],
  ])('because %s, is repeated unchanged before newer counts are sent', async (_why, trouble) => {
    reply = trouble
    use()
    await reporter.report()
    expect(log.text).toContain('usage report failing')
    clock.advance(PERIOD_MS)
    use()
    use('key_2')
    await reporter.report()
    reply = async () => ({ status: 200, text: '' })
    await reporter.report()
    const [first, second, third, fourth] = sent
    expect([second, third]).toEqual([first, first])
    expect(JSON.parse(fourth ?? '')).toMatchObject({
      sequence: 2,
      counts: [
        { keyId: 'key_1', count: 1 },
        { keyId: 'key_2', count: 1 },
      ],
    })
    await reporter.report()
    expect(sent).toHaveLength(4)
  })

  test('is late, which a metric says', async () => {
    const delay = () => metricValue(metrics.usageReportDelay)
    reply = async () => ({ status: 503, text: '' })
    use()
    await reporter.report()
    clock.advance(25_000)
    expect(await delay()).toBe(25)
    reply = async () => ({ status: 200, text: '{}' })
    await reporter.report()
    expect(await delay()).toBe(0)
    const outcome = (name: string) => metricValue(metrics.usageReportsSent, { outcome: name })
    expect([await outcome('failed'), await outcome('accepted')]).toEqual([1, 1])
  })
})

describe('what the key service will never accept', () => {
  const lost = () => metricValue(metrics.usageLost, { cause: 'refused' })

  test.each([400, 413, 422])('a report (%i) is dropped, and the next one says how much', async status => {
    reply = async () => ({ status, text: '' })
    use()
    use()
    await reporter.report()
    expect(log.text).toContain('rejected a report')
    reply = async () => ({ status: 200, text: '{}' })
    await reporter.report()
    expect(reports().at(-1)).toMatchObject({ sequence: 2, counts: [], lost: 2 })
    expect(await lost()).toBe(2)
  })

  test('a single entry is counted as lost, and the others are not', async () => {
    const refused = [
      { list: 'counts', index: 1, error: 'unknown key' },
      { list: 'used', index: 0, error: 'unknown key' },
    ]
    reply = async () => ({ status: 200, text: JSON.stringify({ refused: 2, first: refused }) })
    for (const key of ['key_1', 'key_2', 'key_2', 'key_3']) use(key)
    await reporter.report()
    expect(await lost()).toBe(2)
  })

  test('more entries than a response names are counted as lost by the number of requests that it says', async () => {
    const first = [{ list: 'counts', index: 0, error: 'unknown key' }]
    reply = async () => ({ status: 200, text: JSON.stringify({ refused: 30, requests: 40, first }) })
    for (let key = 0; key < 50; key++) use(`key_${key}`)
    await reporter.report()
    expect(await lost()).toBe(40)
    // It cannot refuse more than was sent.
    reply = async () => ({ status: 200, text: '{"refused":1,"requests":5}' })
    use()
    await reporter.report()
    expect(await lost()).toBe(41)
  })

  test.each([
    ['accepted', 200, 0],
    ['rejected', 400, 1],
  ])('a response that is too long settles the report all the same: %s', async (outcome, status, requests) => {
    reply = () => Promise.reject(new OversizedResponse(status, 1))
    use()
    await reporter.report()
    await reporter.report()
    expect(reports().filter(({ sequence }) => sequence === 1)).toHaveLength(1)
    expect(await metricValue(metrics.usageReportsSent, { outcome })).toBeGreaterThan(0)
    expect(await lost()).toBe(requests)
  })

  test('a report that makes the key service fail ten times in a row is dropped, so that later ones are sent', async () => {
    reply = async () => ({ status: 500, text: '' })
    use()
    for (let attempt = 0; attempt < 9; attempt++) await reporter.report()
    expect(await lost()).toBe(0)
    await reporter.report()
    expect([sent.length, new Set(sent).size, await lost()]).toEqual([10, 1, 1])
    reply = async () => ({ status: 200, text: '{}' })
    use('key_2')
    await reporter.report()
    expect(reports().at(-1)).toMatchObject({ sequence: 2, used: { key_2: clock.wallMs() }, lost: 1 })
  })

  test.each([503, 502, 429])('one that gets %i is repeated for as long as it takes', async status => {
    reply = async () => ({ status, text: '' })
    use()
    for (let attempt = 0; attempt < 30; attempt++) await reporter.report()
    expect([sent.length, new Set(sent).size, await lost()]).toEqual([30, 1, 0])
  })

  test.each([404, 405, 501])(
    'because it does not offer the call (%i), is not sent for five minutes',
    async status => {
      reply = async () => ({ status, text: '' })
      use()
      await reporter.report()
      clock.advance(299_999)
      use()
      await reporter.report()
      expect(sent).toHaveLength(1)
      expect(counts.entries).toBe(0)
      clock.advance(1)
      use('key_2')
      await reporter.report()
      expect(reports().at(-1)?.used).toEqual({ key_2: clock.wallMs() })
      expect(log.text).not.toContain('failing')
    },
  )
})

test.each([404, 405, 501])(
  'a %i after an accepted report does not come from the key service: nothing that was counted is lost',
  async status => {
    use()
    await reporter.report()
    reply = async () => ({ status, text: '' })
    use('key_2')
    await reporter.report()
    await reporter.report()
    reply = async () => ({ status: 200, text: '{}' })
    await reporter.report()
    expect(reports().map(({ sequence, used }) => [sequence, Object.keys(used)])).toEqual([
      [1, ['key_1']],
      ...Array(3).fill([2, ['key_2']]),
    ])
    expect(counts.entries).toBe(0)
  },
)

describe('at the end', () => {
  test('what was counted is reported, also after a report in flight', async () => {
    use()
    const { promise, resolve } = Promise.withResolvers<KeyServiceResponse>()
    reply = () => promise
    void reporter.report()
    use('key_2')
    const stopped = reporter.stop()
    resolve({ status: 200, text: '{}' })
    await stopped
    expect(reports().map(({ used }) => Object.keys(used))).toEqual([['key_1'], ['key_2']])
  })

  test('a key service that does not respond does not delay the stop, with any number of unreported uses', async () => {
    reply = () => new Promise<never>(() => {})
    for (let key = 0; key < 50_000; key++) use(`key_${key}`)
    void reporter.report()
    await reporter.stop()
    // The report in flight, and one more that has the rest of the time for all others.
    expect(sent).toHaveLength(2)
  })
})
