import { expect, onTestFinished, test } from 'vitest'
import { createUsageQueries, lastPoints } from '../../../src/console/usage/read-usage.ts'
import type { CheckedReport } from '../../../src/console/usage/reports/check-report.ts'
import { ReportGatherer } from '../../../src/console/usage/reports/store-reports.ts'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import { ManualTimers } from '../../support/manual-timers.ts'
import { metricValue } from '../../support/metric-value.ts'
import { openDatabase } from '../../support/open-database.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { NOW_MS } from '../../support/stored-keys.ts'
import { until } from '../../support/until.ts'
import { count, report } from './usage.contract.ts'

async function started() {
  const database = await openDatabase('sqlite::memory:')
  onTestFinished(() => database.close())
  const timers = new ManualTimers()
  const clock = { wallMs: () => NOW_MS, monotonicMs: () => timers.nowMs }
  const metrics = createMetrics()
  /** One for each transaction. */
  const written: Record<string, number>[] = []
  const uses = {
    record: async (used: ReadonlyMap<string, number>) => void written.push(Object.fromEntries(used)),
  }
  const gatherer = new ReportGatherer({ database, uses, clock, timers, logger: silentLogger, metrics })
  const store = (sent: CheckedReport, used: Record<string, number> = {}) =>
    gatherer.store({ ...sent, used: new Map(Object.entries(used)) })
  const stored = async () => {
    const hour = lastPoints('hour', 1, NOW_MS)
    const { points } = await createUsageQueries(database, clock).readWorkspace('ws_1', hour)
    return points[0]?.requests
  }
  const gathered = async () => {
    await until('a report waits for others', async () => timers.nextDelayMs !== null)
    timers.advance(100)
  }
  return { gatherer, store, stored, gathered, written, metrics }
}

test('reports of many gateways that arrive within 100 ms are stored in one transaction, with the latest use of each key', async () => {
  const { store, stored, gathered, written } = await started()
  const sent = Array.from({ length: 20 }, (_, index) =>
    store(report(`g${index}`, 1, [count(2)]), { key_a: NOW_MS - index }),
  )
  await gathered()
  await Promise.all(sent)
  expect(await stored()).toBe(40)
  expect(written).toEqual([{ key_a: NOW_MS }])
})

test('two reports of one gateway that wait together both count, and a repetition of one that waits does not', async () => {
  const { store, stored, gathered, written } = await started()
  const sent = [1, 2, 2].map(sequence => store(report('g', sequence, [count(sequence)])))
  await gathered()
  await Promise.all(sent)
  expect(await stored()).toBe(3)
  expect(written).toHaveLength(2)
})

test('a console that stops waits until the reports that it has received are stored', async () => {
  const { gatherer, store, stored, gathered } = await started()
  const order: string[] = []
  void store(report('g', 1, [count(3)])).then(() => order.push('stored'))
  const stopped = gatherer.stop().then(() => order.push('stopped'))
  await gathered()
  await stopped
  expect(order).toEqual(['stored', 'stopped'])
  expect(await stored()).toBe(3)
})

test('reports of more than 200,000 entries do not wait for a slow database: the gateway is to send them again', async () => {
  const { store, gathered, metrics } = await started()
  const omitted = Array.from({ length: 100_000 }, () => 'ws_1')
  const waiting = ['g1', 'g2'].map(gateway => store(report(gateway, 1, [], { omitted })))
  await expect(store(report('g3', 1, [count(1)]))).rejects.toThrow('Too many usage reports')
  expect(await metricValue(metrics.usageReports, { outcome: 'overloaded' })).toBe(1)
  await gathered()
  await Promise.all(waiting)
  // What is stored waits no more: there is room for as much again.
  const again = ['g3', 'g4'].map(gateway => store(report(gateway, 1, [], { omitted })))
  await gathered()
  await Promise.all(again)
})
