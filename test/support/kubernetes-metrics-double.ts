import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { portOf } from './port-of.ts'

export interface DoubledPod {
  readonly namespace: string
  readonly pod: string
  readonly container: 'gateway' | 'console'
}

const AUTOSCALER = { horizontalpodautoscaler: 'postern-gateway' }
const LIMIT_BYTES = 384 * 1024 * 1024

/**
 * There is no Kubernetes here: this double exposes processes under the names and labels of kube-state-metrics and
 * cAdvisor, with made-up figures that grow. It shows that the queries return data, and nothing about Kubernetes
 * itself.
 */
export class KubernetesMetricsDouble {
  readonly url: string
  readonly #server: Server

  private constructor(server: Server) {
    this.#server = server
    const port = portOf(server)
    this.url = `http://127.0.0.1:${port}`
  }

  static async start(pods: readonly DoubledPod[]): Promise<KubernetesMetricsDouble> {
    const startedAtMs = performance.now()
    const server = createServer((_, response) => {
      response.setHeader('content-type', 'text/plain; version=0.0.4; charset=utf-8')
      response.end(expositionOf(pods, (performance.now() - startedAtMs) / 1000))
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return new KubernetesMetricsDouble(server)
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

function expositionOf(pods: readonly DoubledPod[], seconds: number): string {
  const [first] = pods
  const autoscaler = { namespace: first?.namespace ?? '', ...AUTOSCALER }
  return [
    ...pods.flatMap(({ namespace, pod, container }) => {
      const labels = { namespace, pod, container }
      return [
        line('kube_pod_container_status_restarts_total', labels, Math.floor(seconds / 20) + 1),
        line('kube_pod_container_status_ready', labels, seconds % 20 < 10 ? 1 : 0),
        line(
          'kube_pod_container_resource_limits',
          { ...labels, resource: 'memory', unit: 'byte' },
          LIMIT_BYTES,
        ),
        line('kube_pod_container_resource_limits', { ...labels, resource: 'cpu', unit: 'core' }, 1),
        line('container_cpu_cfs_periods_total', labels, seconds * 10),
        line('container_cpu_cfs_throttled_periods_total', labels, seconds),
        line('container_memory_working_set_bytes', labels, LIMIT_BYTES / 3),
      ]
    }),
    line('kube_horizontalpodautoscaler_status_current_replicas', autoscaler, 2),
    line('kube_horizontalpodautoscaler_status_desired_replicas', autoscaler, 3),
    line('kube_horizontalpodautoscaler_spec_max_replicas', autoscaler, 10),
    line('kube_horizontalpodautoscaler_spec_min_replicas', autoscaler, 2),
    '',
  ].join('\n')
}

function line(name: string, labels: Readonly<Record<string, string>>, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${text}"`)
  return `${name}{${pairs.join(',')}} ${value}`
}
