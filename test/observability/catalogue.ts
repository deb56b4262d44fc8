import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { partsOf } from './promql.ts'
import { recordings } from './rule-files.ts'

/** Labels that scraping adds to every series. */
export const TARGET_LABELS: readonly string[] = ['cluster', 'namespace', 'job', 'pod', 'instance']

/** Series of Prometheus itself that panels and rules use. */
const OF_PROMETHEUS: readonly (readonly [string, readonly string[]])[] = [
  ['up', []],
  ['ALERTS', ['alertname', 'alertstate', 'severity']],
]

const OF_A_CONTAINER = ['container']
const OF_A_CRONJOB = ['cronjob']
const OF_A_JOB = ['job_name']
const OF_AN_AUTOSCALER = ['horizontalpodautoscaler']

/** Metrics of kube-state-metrics and cAdvisor about our objects, by name. */
export const OF_KUBERNETES: readonly (readonly [string, readonly string[]])[] = [
  ['kube_pod_container_status_restarts_total', OF_A_CONTAINER],
  ['kube_pod_container_status_ready', OF_A_CONTAINER],
  ['kube_pod_container_resource_limits', [...OF_A_CONTAINER, 'resource', 'unit', 'node']],
  ['kube_horizontalpodautoscaler_status_current_replicas', OF_AN_AUTOSCALER],
  ['kube_horizontalpodautoscaler_status_desired_replicas', OF_AN_AUTOSCALER],
  ['kube_horizontalpodautoscaler_spec_max_replicas', OF_AN_AUTOSCALER],
  ['kube_horizontalpodautoscaler_spec_min_replicas', OF_AN_AUTOSCALER],
  ['kube_cronjob_status_last_successful_time', OF_A_CRONJOB],
  ['kube_cronjob_created', OF_A_CRONJOB],
  ['kube_job_status_start_time', OF_A_JOB],
  ['kube_job_failed', [...OF_A_JOB, 'condition']],
  ['container_cpu_cfs_periods_total', OF_A_CONTAINER],
  ['container_cpu_cfs_throttled_periods_total', OF_A_CONTAINER],
  ['container_memory_working_set_bytes', OF_A_CONTAINER],
]

/** Every name allowed in a query, with its labels: exported metrics and recording rules. */
export const catalogue: ReadonlyMap<string, readonly string[]> = new Map([
  ...exported(),
  ...OF_PROMETHEUS,
  ...OF_KUBERNETES,
  ...recordings.map(({ record }) => [record, labelsOf(record)] as const),
])

/** Labels of a recording: those that its rules group by and set, and those of the recordings from which they are made. */
function labelsOf(name: string): readonly string[] {
  const own = recordings.filter(({ record }) => record === name)
  return own.flatMap(({ expr, labels = {} }) => {
    const { grouping, selectors } = partsOf(expr)
    return [...grouping, ...Object.keys(labels), ...selectors.flatMap(({ metric }) => labelsOf(metric))]
  })
}

/** Names of our metrics, without the suffixed names of histograms. */
export const ourMetrics: readonly string[] = createMetrics()
  .registry.getMetricsAsArray()
  .map(metric => metric.name)
  .filter(name => name.startsWith('postern_'))

type Entry = readonly [name: string, labels: readonly string[]]

function exported(): Entry[] {
  const { registry } = createMetrics()
  return registry.getMetricsAsArray().flatMap(({ name }): Entry[] => {
    // The library's types hide the labels; only a histogram has bounds.
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
