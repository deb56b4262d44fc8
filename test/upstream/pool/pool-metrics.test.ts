import { expect, test } from 'vitest'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import { PoolMetrics } from '../../../src/upstream/pool/pool-metrics.ts'
import { metricValue } from '../../support/metric-value.ts'

const upstream = 'default'
const start = () => {
  const metrics = createMetrics()
  const pool = new PoolMetrics(metrics, () => ({
    open: 3,
    free: 2,
    pending: 1,
    queued: 7,
    circuit: 'half_open',
    addresses: { usable: 4, avoided: 5 },
  }))
  const seriesOf = async (metric: keyof typeof metrics) => {
    const found = metrics[metric]
    if (!('get' in found)) throw new Error(`${metric} is no metric`)
    const { values } = await found.get()
    return values.map(({ labels, value }) => ({ ...labels, value }))
  }
  return { metrics, pool, seriesOf }
}

test('a scrape shows connections, queue, circuit and addresses as they are', async () => {
  const { seriesOf } = start()
  expect(await seriesOf('upstreamConnections')).toEqual([
    { upstream, state: 'open', value: 3 },
    { upstream, state: 'free', value: 2 },
    { upstream, state: 'pending', value: 1 },
  ])
  expect(await seriesOf('upstreamQueued')).toEqual([{ upstream, value: 7 }])
  expect(await seriesOf('upstreamCircuit')).toEqual([
    { upstream, state: 'closed', value: 0 },
    { upstream, state: 'open', value: 0 },
    { upstream, state: 'half_open', value: 1 },
  ])
  expect(await seriesOf('upstreamAddresses')).toEqual([
    { upstream, state: 'usable', value: 4 },
    { upstream, state: 'avoided', value: 5 },
  ])
})

test('usual codes, errors and retries are at 0 from the start, so that rate() works', async () => {
  const { seriesOf } = start()
  expect(await seriesOf('upstreamRequests')).toEqual(
    ['200', '404', '500', '503'].map(code => ({ upstream, code, value: 0 })),
  )
  expect(await seriesOf('upstreamRetries')).toEqual([
    { upstream, outcome: 'success', value: 0 },
    { upstream, outcome: 'failure', value: 0 },
  ])
  expect(await seriesOf('upstreamErrors')).toContainEqual({ upstream, kind: 'refused', value: 0 })
})

test('responses, their time in seconds, and errors are counted, with the outcome of a retry', async () => {
  const { metrics, pool } = start()
  pool.headReceived(409, 2500, false)
  pool.headReceived(409, 500, true)
  expect(await metricValue(metrics.upstreamRequests, { upstream, code: '409' })).toBe(2)
  const { values } = await metrics.upstreamTimeToHeaders.get()
  const sum = values.find(({ metricName }) => metricName?.endsWith('_sum'))
  expect(sum).toMatchObject({ labels: { upstream }, value: 3 })
  expect(await metricValue(metrics.upstreamRetries, { outcome: 'success' })).toBe(1)
  pool.failed('reset', false)
  expect(await metricValue(metrics.upstreamRetries, { outcome: 'failure' })).toBe(0)
  pool.failed('reset', true)
  expect(await metricValue(metrics.upstreamErrors, { upstream, kind: 'reset' })).toBe(2)
  expect(await metricValue(metrics.upstreamRetries, { upstream, outcome: 'failure' })).toBe(1)
})
