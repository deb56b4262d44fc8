import { type Panel, type Row, SELECTED } from './dashboard.ts'

/** Matchers for containers of both planes. Kubernetes' exporters do not use our job labels. */
const CONTAINER = 'cluster=~"$cluster",namespace=~"$namespace",pod=~"$pod",container=~"gateway|console"'
const OURS = `and on (cluster, namespace, pod) last_over_time(postern_build_info{${SELECTED}}[15m])`
const AUTOSCALER = 'cluster=~"$cluster",namespace=~"$namespace",horizontalpodautoscaler=~".+-gateway"'

function ofPods(title: string, description: string, more: Pick<Panel, 'unit' | 'queries'>): Panel {
  return { title, description, kind: 'timeseries', width: 6, ...more }
}

const perPod = (expr: string) => `sum by (pod) (${expr} ${OURS})`
const replicas = (what: string) =>
  `max by (horizontalpodautoscaler) (kube_horizontalpodautoscaler_${what}{${AUTOSCALER}})`

/** Panels over metrics of kube-state-metrics and the kubelet. */
export const kubernetes: Row = {
  title: 'Kubernetes (needs kube-state-metrics and cAdvisor)',
  panels: [
    ofPods('Restarts', 'Container restarts, and pods that are not ready.', {
      unit: 'short',
      queries: [
        { expr: perPod(`kube_pod_container_status_restarts_total{${CONTAINER}}`), legend: '{{pod}}' },
        {
          expr: `sum(kube_pod_container_status_ready{${CONTAINER}} == bool 0 ${OURS})`,
          legend: 'not ready',
        },
      ],
    }),
    ofPods(
      'CPU throttling',
      'Share of scheduling periods in which the container was throttled. Above 0, the CPU limit adds latency.',
      {
        unit: 'percentunit',
        queries: [
          {
            expr: `${perPod(`rate(container_cpu_cfs_throttled_periods_total{${CONTAINER}}[$__rate_interval])`)} / ${perPod(`rate(container_cpu_cfs_periods_total{${CONTAINER}}[$__rate_interval])`)}`,
            legend: '{{pod}}',
          },
        ],
      },
    ),
    ofPods(
      'Memory use of the limit',
      'Working set as a share of the memory limit. At 1 the kernel kills the container.',
      {
        unit: 'percentunit',
        queries: [
          {
            expr: `${perPod(`container_memory_working_set_bytes{${CONTAINER}}`)} / ${perPod(`kube_pod_container_resource_limits{${CONTAINER},resource="memory"}`)}`,
            legend: '{{pod}}',
          },
        ],
      },
    ),
    ofPods('Autoscaler', 'Current, desired and maximum number of gateways.', {
      unit: 'short',
      queries: [
        { expr: replicas('status_current_replicas'), legend: '{{horizontalpodautoscaler}} current' },
        { expr: replicas('status_desired_replicas'), legend: '{{horizontalpodautoscaler}} desired' },
        { expr: replicas('spec_max_replicas'), legend: '{{horizontalpodautoscaler}} maximum' },
      ],
    }),
  ],
}
