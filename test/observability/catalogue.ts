import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { partsOf } from './promql.ts'
import { recordings } from './rule-files.ts'

/** What every series has, from whoever scrapes it. */
export const TARGET_LABELS: readonly string[] = ['cluster', 'namespace', 'job', 'pod', 'instance']

/** What Prometheus itself makes, of which panels and rules speak. */
const OF_PROMETHEUS: readonly (readonly [string, readonly string[]])[] = [
  ['up', []],
  ['ALERTS', ['alertname', 'alertstate', 'severity']],
]

const OF_A_CONTAINER = ['container']
const OF_AN_AUTOSCALER = ['horizontalpodautoscaler']

/** What others export of our pods, by name: kube-state-metrics, and the kubelet's cAdvisor. None of it is ours. */
export const OF_KUBERNETES: readonly (readonly [string, readonly string[]])[] = [
  ['kube_pod_container_status_restarts_total', OF_A_CONTAINER],
  ['kube_pod_container_status_ready', OF_A_CONTAINER],
  ['kube_pod_container_resource_limits', [...OF_A_CONTAINER, 'resource', 'unit', 'node']],
  ['kube_horizontalpodautoscaler_status_current_replicas', OF_AN_AUTOSCALER],
  ['kube_horizontalpodautoscaler_status_desired_replicas', OF_AN_AUTOSCALER],
  ['kube_horizontalpodautoscaler_spec_max_replicas', OF_AN_AUTOSCALER],
  ['container_cpu_cfs_periods_total', OF_A_CONTAINER],
  ['container_cpu_cfs_throttled_periods_total', OF_A_CONTAINER],
  ['container_memory_working_set_bytes', OF_A_CONTAINER],
]

/** Every name that may stand in a query, with the labels it has: what we export, what rules record. */
export const catalogue: ReadonlyMap<string, readonly string[]> = new Map([
  ...exported(),
  ...OF_PROMETHEUS,
  ...OF_KUBERNETES,
  ...recordings.map(({ record, expr, labels = {} }) => {
    const made = recordings
      .filter(other => other.record === record)
      .flatMap(other => Object.keys(other.labels ?? {}))
    return [record, [...partsOf(expr).grouping, ...Object.keys(labels), ...made]] as const
  }),
])

/** Names of ours, without those that histograms make of theirs. */
export const ourMetrics: readonly string[] = createMetrics()
  .registry.getMetricsAsArray()
  .map(metric => metric.name)
  .filter(name => name.startsWith('postern_'))

type Entry = readonly [name: string, labels: readonly string[]]

function exported(): Entry[] {
  const { registry } = createMetrics()
  return registry.getMetricsAsArray().flatMap(({ name }): Entry[] => {
    // The library's type of a metric says nothing of its labels; a histogram alone has bounds.
    const metric = registry.getSingleMetric(name) as unknown as {
      labelNames: string[]
      upperBounds?: unknown
    }
    const labels = metric.labelNames
    if (metric.upperBounds === undefined) return [[name, labels]]
    return [
      [`${name}_bucket`, [...labels, 'le']],
      [`${name}_sum`, labels],
      [`${name}_count`, labels],
    ]
  })
}
