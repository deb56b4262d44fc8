import { describe, expect, test } from 'vitest'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { createWorkspaceRequestCounts } from '../../src/observability/request-observer.ts'
import { mistakesOf } from '../config/examples.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { metricValue } from '../support/metric-value.ts'

const MINUTE_MS = 60_000

describe('requests are counted by workspace if the operator names workspaces', () => {
  test('each named workspace alone, all others together, from the start', async () => {
    const metrics = createMetrics(['gateway', 'workspaces'])
    const counts = createWorkspaceRequestCounts(metrics, ['ws_1', 'ws_2'], new ManualClock())
    for (const id of ['ws_1', 'ws_1', 'ws_9', 'constructor', 'ws_8']) counts?.count(id)
    const { values } = await metrics.workspaceRequests.get()
    expect(values.map(({ labels, value }) => [labels.workspace, value])).toEqual([
      ['ws_1', 2],
      ['ws_2', 0],
      ['other', 3],
    ])
  })

  test('a gauge shows for five minutes that an unnamed workspace sent a request', async () => {
    const clock = new ManualClock()
    const metrics = createMetrics(['gateway', 'workspaces'])
    const counts = createWorkspaceRequestCounts(metrics, ['ws_1'], clock)
    const isFolded = () => metricValue(metrics.workspacesFolded)
    counts?.count('ws_1')
    expect(await isFolded()).toBe(0)
    counts?.count('ws_9')
    expect(await isFolded()).toBe(1)
    clock.advance(5 * MINUTE_MS)
    expect(await isFolded()).toBe(0)
  })

  test('without named workspaces there is no series', async () => {
    const metrics = createMetrics(['gateway'])
    expect(createWorkspaceRequestCounts(metrics, [], new ManualClock())).toBeNull()
    expect(await metrics.registry.metrics()).not.toContain('workspace_')
  })

  test.each([
    ['more than fifty', Array.from({ length: 51 }, (_, n) => `ws_${n}`).join(',')],
    ['the name of the rest', 'other'],
    ['an invalid workspace id', 'ws/1'],
  ])('%s is rejected', (_, list) => {
    const [mistake] = mistakesOf({ environment: { POSTERN_METRICS_WORKSPACES: list } })
    expect(mistake).toContain('POSTERN_METRICS_WORKSPACES')
  })
})
