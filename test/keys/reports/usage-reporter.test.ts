import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { UsageReporter } from '../../../src/keys/reports/usage-reporter.ts'
import type {
  KeyServiceRequest,
  KeyServiceResponse,
} from '../../../src/keys/tiers/key-service/key-service-client.ts'
import { FailureLog } from '../../../src/observability/failure-log.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const MINUTE_MS = 60_000

let clock: ManualClock
let log: LogSpy
let reports: Record<string, number>[]
let reply: () => Promise<KeyServiceResponse>
let reporter: UsageReporter

beforeEach(() => {
  clock = new ManualClock()
  log = new LogSpy()
  reports = []
  reply = async () => ({ status: 200, text: '{}' })
  reporter = create()
})
afterEach(() => vi.useRealTimers())

function create(more: { maxKeys?: number; random?: () => number } = {}): UsageReporter {
  const client = {
    request: async ({ body, path, method }: KeyServiceRequest, signal: AbortSignal) => {
      expect([method, path]).toEqual(['POST', '/usage'])
      reports.push((body as { used: Record<string, number> }).used)
      const { promise: late, reject } = Promise.withResolvers<never>()
      signal.addEventListener('abort', () => reject(signal.reason))
      return Promise.race([reply(), late])
    },
  }
  const failures = new FailureLog('usage report', log, clock)
  return new UsageReporter({ client, clock, failures, periodMs: MINUTE_MS, timeoutMs: 100, ...more })
}

function thisMinute(): number {
  return Math.floor(clock.wallMs() / MINUTE_MS) * MINUTE_MS
}

test('each used key is reported once, with the minute of its last use', async () => {
  reporter.used('key_1')
  clock.advance(MINUTE_MS)
  for (let use = 0; use < 1_000; use++) reporter.used('key_1')
  reporter.used('key_2')
  clock.advance(30_000)
  await reporter.report()
  expect(reports).toEqual([{ key_1: thisMinute(), key_2: thisMinute() }])
})

test('without a used key no report is sent', async () => {
  reporter.used('key_1')
  await reporter.report()
  await reporter.report()
  expect(reports).toHaveLength(1)
})

test('many keys are reported in batches of 500', async () => {
  for (let key = 0; key < 1_250; key++) reporter.used(`key_${key}`)
  await reporter.report()
  expect(reports.map(used => Object.keys(used).length)).toEqual([500, 500, 250])
})

test('beyond the maximum the oldest keys are dropped, and memory stays bounded', async () => {
  reporter = create({ maxKeys: 3 })
  for (const key of ['a', 'b', 'c', 'd']) reporter.used(key)
  await reporter.report()
  expect(Object.keys(reports[0] ?? {})).toEqual(['b', 'c', 'd'])
})

test('one report is sent per period, the first at a random time, so that gateways do not report together', () => {
  vi.useFakeTimers()
  reporter = create({ random: () => 0.25 })
  reporter.start()
  reporter.used('key_1')
  vi.advanceTimersByTime(14_999)
  expect(reports).toHaveLength(0)
  vi.advanceTimersByTime(1)
  expect(reports).toHaveLength(1)
})

describe('a key service that does not accept a report', () => {
  test.each([
    ['is down', () => Promise.reject(new Error('ECONNREFUSED'))],
    ['responds with 500', async () => ({ status: 500, text: '' })],
    ['responds with 401', async () => ({ status: 401, text: '' })],
    ['does not respond', () => new Promise<never>(() => {})],
  ])('(it %s) receives the uses with the next one, with the latest time', async (_why, trouble) => {
    reply = trouble
    const firstMinute = thisMinute()
    reporter.used('key_1')
    reporter.used('key_2')
    await reporter.report()
    expect(log.text).toContain('usage report failing')
    clock.advance(MINUTE_MS)
    reporter.used('key_2')
    reply = async () => ({ status: 204, text: '' })
    await reporter.report()
    expect(reports.at(-1)).toEqual({ key_1: firstMinute, key_2: firstMinute + MINUTE_MS })
    await reporter.report()
    expect(reports).toHaveLength(2)
  })

  test('never makes the gateway store more than the maximum', async () => {
    reporter = create({ maxKeys: 2 })
    reply = async () => ({ status: 503, text: '' })
    reporter.used('a')
    reporter.used('b')
    await reporter.report()
    reporter.used('c')
    await reporter.report()
    reply = async () => ({ status: 200, text: '' })
    await reporter.report()
    expect(Object.keys(reports.at(-1) ?? {})).toEqual(['b', 'c'])
  })

  test('receives only the uses that it has not accepted yet', async () => {
    for (let key = 0; key < 501; key++) reporter.used(`key_${key}`)
    reply = async () => ({ status: reports.length === 1 ? 200 : 500, text: '' })
    await reporter.report()
    reply = async () => ({ status: 200, text: '' })
    await reporter.report()
    expect(reports.map(used => Object.keys(used).length)).toEqual([500, 1, 1])
  })

  test.each([404, 405, 501])(
    'because it does not offer the call (%i) is not asked for an hour',
    async status => {
      reply = async () => ({ status, text: '' })
      reporter.used('key_1')
      await reporter.report()
      clock.advance(3_599_999)
      reporter.used('key_1')
      await reporter.report()
      expect(reports).toHaveLength(1)
      clock.advance(1)
      reporter.used('key_2')
      await reporter.report()
      expect(reports.at(-1)).toEqual({ key_2: thisMinute() })
      expect(log.text).not.toContain('failing')
    },
  )
})

describe('at the end', () => {
  test('recorded uses are reported', async () => {
    reporter.used('key_1')
    await reporter.stop()
    expect(reports).toHaveLength(1)
  })

  test('a key service that does not respond does not delay the stop, with any number of unreported uses', async () => {
    reply = () => new Promise<never>(() => {})
    for (let key = 0; key < 50_000; key++) reporter.used(`key_${key}`)
    const beganMs = performance.now()
    void reporter.report()
    await reporter.stop()
    expect(performance.now() - beganMs).toBeLessThan(1_000)
  })
})

test('of many more keys than the maximum, the latest are reported', async () => {
  reporter = create({ maxKeys: 1_000 })
  for (let key = 0; key < 10_000; key++) reporter.used(`key_${key}`)
  await reporter.report()
  const keys = reports.flatMap(used => Object.keys(used))
  expect(keys.length).toBeLessThanOrEqual(1_000)
  expect(keys.slice(-900)).toEqual(Array.from({ length: 900 }, (_, index) => `key_${9_100 + index}`))
})
