import { CHOSEN, type Panel, type Row } from './board.ts'

/** Container of either plane, in the pods that are chosen: others measure these, and know nothing of our jobs. */
const CONTAINER = 'cluster=~"$cluster",namespace=~"$namespace",pod=~"$pod",container=~"gateway|console"'
const OURS = `and on (cluster, namespace, pod) last_over_time(postern_build_info{${CHOSEN}}[15m])`
const AUTOSCALER = 'cluster=~"$cluster",namespace=~"$namespace",horizontalpodautoscaler=~".+-gateway"'

function ofPods(title: string, description: string, more: Pick<Panel, 'unit' | 'queries'>): Panel {
  return { title, description, kind: 'timeseries', width: 6, ...more }
}

const perPod = (expr: string) => `sum by (pod) (${expr} ${OURS})`
const replicas = (what: string) =>
  `max by (horizontalpodautoscaler) (kube_horizontalpodautoscaler_${what}{${AUTOSCALER}})`

/** Of metrics that kube-state-metrics and the kubelet export, where Prometheus has them. */
export const kubernetes: Row = {
  title: 'Kubernetes (needs kube-state-metrics and cAdvisor)',
  panels: [
    ofPods('Restarts', 'Times that Kubernetes started a container again, and pods that are not ready.', {
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
      'Throttled',
      'Share of the periods in which a container was kept from the processor. Above 0 a limit on processor time shows as latency.',
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
    ofPods('Memory of the limit', 'What the kernel counts; at 1 the container is ended.', {
      unit: 'percentunit',
      queries: [
        {
          expr: `${perPod(`container_memory_working_set_bytes{${CONTAINER}}`)} / ${perPod(`kube_pod_container_resource_limits{${CONTAINER},resource="memory"}`)}`,
          legend: '{{pod}}',
        },
      ],
    }),
    ofPods('Autoscaler', 'Gateways that there are and that are wanted, and how many there may be.', {
      unit: 'short',
      queries: [
        { expr: replicas('status_current_replicas'), legend: '{{horizontalpodautoscaler}} now' },
        { expr: replicas('status_desired_replicas'), legend: '{{horizontalpodautoscaler}} wanted' },
        { expr: replicas('spec_max_replicas'), legend: '{{horizontalpodautoscaler}} at most' },
      ],
    }),
  ],
}
