import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parse, stringify } from 'yaml'
import { settings } from '../../src/config/settings.ts'
import { CI_FILES, NAME, render } from '../support/chart.ts'
import { at, textAt, valueAt } from '../support/manifests.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { HELM, has, PROMTOOL } from '../support/tools.ts'

const METRIC = 'postern_http_requests_in_flight'
/** Two gateways of the release, one of another release, and its console. */
const SERIES = [
  `${METRIC}{namespace="default",job="${NAME}-gateway",pod="a"} 70`,
  `${METRIC}{namespace="default",job="${NAME}-gateway",pod="b"} 90`,
  `${METRIC}{namespace="default",job="${NAME}-console",pod="c"} 5`,
  `${METRIC}{namespace="other",job="${NAME}-gateway",pod="a"} 1000`,
]

/** What Prometheus says to a query beside the expected samples; empty if it says the same. */
function difference(query: string, expected: readonly { labels: string; value: number }[]): string {
  const series = SERIES.map(line => {
    const [name = '', value = ''] = line.split(' ')
    return { series: name, values: `${value}x5` }
  })
  const check = { expr: query, eval_time: '1m', exp_samples: expected }
  const file = join(temporaryDirectory(), 'query.yaml')
  const tests = [{ interval: '30s', input_series: series, promql_expr_test: [check] }]
  writeFileSync(file, stringify({ rule_files: [], tests }))
  const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', file], { encoding: 'utf8' })
  return status === 0 ? '' : stdout + stderr
}

const halfOfConnections = () => {
  const setting = settings.find(({ path }) => path === 'upstream.connections')
  return String(Number(setting?.schema.default) / 2)
}

describe.skipIf(![HELM, PROMTOOL].every(has))('scaling by requests in flight', () => {
  it('KEDA asks for the requests of the release’s gateways, and adds one for each half of their connections', () => {
    const scaled = render({}, { files: ['keda-values.yaml'] }).get('ScaledObject')
    expect(textAt(scaled, 'spec.scaleTargetRef.name')).toBe(`${NAME}-gateway`)
    const trigger = valueAt(scaled, 'spec.triggers', '0', 'metadata')
    expect(difference(textAt(trigger, 'query'), [{ labels: '{}', value: 160 }])).toBe('')
    expect(textAt(trigger, 'threshold')).toBe(halfOfConnections())
    expect(difference(textAt(trigger, 'query'), [{ labels: '{}', value: 161 }])).toContain('FAILED')
  })

  it('leaves the number of pods to KEDA', () => {
    const rendering = render({}, { files: ['keda-values.yaml'] })
    expect(valueAt(rendering.get('Deployment'), 'spec')).not.toHaveProperty('replicas')
    expect(rendering.all('HorizontalPodAutoscaler')).toEqual([])
  })

  it.each(CI_FILES)('no number of pods stands beside an autoscaler: %s', file => {
    const rendering = render({}, { files: [file] })
    const owned = ['HorizontalPodAutoscaler', 'ScaledObject'].flatMap(kind =>
      rendering.all(kind).map(scaler => textAt(scaler, 'spec.scaleTargetRef.name')),
    )
    for (const deployment of rendering.all('Deployment')) {
      const isOwned = owned.includes(textAt(deployment, 'metadata.name'))
      expect('replicas' in at(deployment, 'spec')).toBe(!isOwned)
    }
  })

  it('prometheus-adapter serves the requests of each pod that the autoscaler asks for', () => {
    const rendering = render({}, { files: ['prometheus-adapter-values.yaml'] })
    const metric = valueAt(rendering.get('HorizontalPodAutoscaler'), 'spec.metrics', '1', 'pods')
    expect(metric).toEqual({
      metric: { name: METRIC },
      target: { type: 'AverageValue', averageValue: halfOfConnections() },
    })
    const config: unknown = parse(textAt(rendering.get('ConfigMap', '-adapter'), 'data', 'config.yaml'))
    const rule = valueAt(config, 'rules', '0')
    expect(textAt(rule, 'seriesQuery')).toContain(METRIC)
    // As the adapter fills its template for the pods of one Deployment.
    const query = textAt(rule, 'metricsQuery')
      .replace('<<.Series>>', METRIC)
      .replace('<<.LabelMatchers>>', 'namespace="default",pod=~"a|b"')
      .replace('<<.GroupBy>>', 'pod')
    const perPod = [
      { labels: '{pod="a"}', value: 70 },
      { labels: '{pod="b"}', value: 90 },
    ]
    expect(difference(query, perPod)).toBe('')
  })
})
