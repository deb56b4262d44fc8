import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { KeyServiceClient } from '../../../src/keys/tiers/key-service-client.ts'
import { createGatewayUsage } from '../../../src/keys/usage/usage-reporter.ts'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import { keyStoreConfig } from '../../support/key-store-config.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { UsageCollector } from '../../support/usage-collector.ts'
import { usageRequest } from '../../support/usage-request.ts'

type Changes = Partial<ReturnType<typeof keyStoreConfig>['usage']>
type Request = KeyServiceClient['request']

let log: LogSpy
let request: ReturnType<typeof vi.fn<Request>>
beforeEach(() => {
  log = new LogSpy()
  request = vi.fn<Request>(async () => ({ status: 200, text: '{}' }))
})

afterEach(() => vi.useRealTimers())

function create(usage: Changes, more: { timeoutMs?: number; refusals?: boolean } = {}) {
  const { keyService, ...config } = keyStoreConfig({ usageReportSeconds: 10 })
  return createGatewayUsage(
    {
      config: {
        usage: { ...config.usage, ...usage },
        outgoing: { noProxy: [] },
        refusals: { enabled: more.refusals ?? true },
        keyService: { ...keyService, timeoutMs: more.timeoutMs ?? 1_000 },
      },
      metrics: createMetrics(),
      logger: log,
      clock: new ManualClock(),
    },
    { request },
    'gateway-1',
  )
}

async function reported(usage: Changes, more?: Parameters<typeof create>[1]): Promise<unknown> {
  const created = create(usage, more)
  created?.counts.record(usageRequest({ reason: 'scope_missing' }), 403, false)
  await created?.reporter.report()
  return request.mock.calls[0]?.[0].body
}

test('usage is reported under the name of the process', async () => {
  expect(await reported({})).toMatchObject({
    gateway: 'gateway-1',
    counts: [{ keyId: 'key_1', code: 'scope_missing' }],
    refusals: [{ code: 'scope_missing' }],
  })
})

test('with usage.reportSeconds 0 there is none', () => {
  expect(create({ reportSeconds: 0 })).toBeNull()
})

test('settings decide whether requests are counted, refusals noted, and how many fit', async () => {
  expect(await reported({ enabled: false })).toMatchObject({ counts: [], refusals: [] })
  request.mockClear()
  expect(await reported({}, { refusals: false })).toMatchObject({ counts: [{}], refusals: [] })
  request.mockClear()
  expect(await reported({ maxEntries: 1 })).toMatchObject({ counts: [{ workspaceId: 'ws_1' }] })
})

test.each([
  [1_000, 5_000],
  [7_000, 7_000],
])(
  'a report may take longer than a lookup with keyService.timeoutMs %i: %i ms',
  async (timeoutMs, mostMs) => {
    const timeout = vi.spyOn(AbortSignal, 'timeout')
    await reported({}, { timeoutMs })
    expect(timeout.mock.calls).toEqual([[mostMs]])
    timeout.mockRestore()
  },
)

test('failures of reports and of exports are logged apart, and both are sent at the end', async () => {
  const collector = await UsageCollector.start()
  collector.status = 503
  request.mockResolvedValue({ status: 500, text: '' })
  const usage = create({ export: { url: collector.url } })
  usage?.counts.record(usageRequest(), 200, false)
  await usage?.reporter.stop()
  collector.stop()
  expect(log.lines.map(({ message }) => message)).toEqual(['usage report failing', 'usage export failing'])
  expect(collector.bodies).toHaveLength(1)
})

test('reports go out every usage.reportSeconds', async () => {
  vi.useFakeTimers()
  const usage = create({ reportSeconds: 20 })
  usage?.reporter.start()
  usage?.counts.record(usageRequest(), 200, false)
  await vi.advanceTimersByTimeAsync(20_000)
  expect(request).toHaveBeenCalledOnce()
  usage?.counts.record(usageRequest(), 200, false)
  await vi.advanceTimersByTimeAsync(20_000)
  expect(request).toHaveBeenCalledTimes(2)
})
