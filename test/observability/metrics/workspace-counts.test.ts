import { describe, expect, test } from 'vitest'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import { createWorkspaceCounts } from '../../../src/observability/metrics/workspace-counts.ts'
import { mistakesOf } from '../../config/examples.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { metricValue } from '../../support/metric-value.ts'

const MINUTE_MS = 60_000

describe('requests are counted by workspace where an operator names workspaces', () => {
  test('each that is named by itself, whatever else there is as one, from the start', async () => {
    const metrics = createMetrics(['gateway', 'workspaces'])
    const counts = createWorkspaceCounts(metrics, ['ws_1', 'ws_2'], new ManualClock())
    for (const id of ['ws_1', 'ws_1', 'ws_9', 'constructor', 'ws_8']) counts?.count(id)
    const { values } = await metrics.workspaceRequests.get()
    expect(values.map(({ labels, value }) => [labels.workspace, value])).toEqual([
      ['ws_1', 2],
      ['ws_2', 0],
      ['other', 3],
    ])
  })

  test('it can be seen that there are others, for five minutes after the last of them', async () => {
    const clock = new ManualClock()
    const metrics = createMetrics(['gateway', 'workspaces'])
    const counts = createWorkspaceCounts(metrics, ['ws_1'], clock)
    const isFolded = () => metricValue(metrics.workspacesFolded)
    counts?.count('ws_1')
    expect(await isFolded()).toBe(0)
    counts?.count('ws_9')
    expect(await isFolded()).toBe(1)
    clock.advance(5 * MINUTE_MS)
    expect(await isFolded()).toBe(0)
  })

  test('with nobody named nothing is counted, and no series is shown', async () => {
    const metrics = createMetrics(['gateway'])
    expect(createWorkspaceCounts(metrics, [], new ManualClock())).toBeNull()
    expect(await metrics.registry.metrics()).not.toContain('workspace_')
  })

  test.each([
    ['more than fifty', Array.from({ length: 51 }, (_, n) => `ws_${n}`).join(',')],
    ['what the rest is called', 'other'],
    ['what is no workspace', 'ws/1'],
  ])('%s is refused', (_, list) => {
    const [mistake] = mistakesOf({ environment: { POSTERN_METRICS_WORKSPACES: list } })
    expect(mistake).toContain('POSTERN_METRICS_WORKSPACES')
  })
})
