import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { kwokStages } from './control-plane-programs.ts'

/** Served as the log of every container. */
export const POD_LOG = 'log of a container that nothing runs'
/** What a pod passes through without a machine: it becomes ready, and is removed when it is deleted. */
const STAGES = [
  'node/fast/node-initialize',
  'node/heartbeat/node-heartbeat',
  'pod/fast/pod-ready',
  'pod/fast/pod-delete',
]

interface Condition {
  readonly key: string
  readonly operator: 'DoesNotExist' | 'In'
  readonly values?: readonly string[]
}

/** A rule of kwok: an object for which all conditions hold gets this status. */
const stage = (
  name: string,
  kind: string,
  matchExpressions: readonly Condition[],
  statusTemplate: string,
) => ({
  apiVersion: 'kwok.x-k8s.io/v1alpha1',
  kind: 'Stage',
  metadata: { name },
  spec: { resourceRef: { apiGroup: 'v1', kind }, selector: { matchExpressions }, next: { statusTemplate } },
})

/** A pod of `helm test` ends well once it runs. */
const TEST_POD_ENDS = stage(
  'test-pod-ends',
  'Pod',
  [
    { key: '.metadata.deletionTimestamp', operator: 'DoesNotExist' },
    { key: '.status.phase', operator: 'In', values: ['Running'] },
    { key: '.metadata.annotations["helm.sh/hook"]', operator: 'In', values: ['test'] },
  ],
  'phase: Succeeded',
)

/** A load balancer gets an address, for which Helm waits. */
const LOAD_BALANCER_ADDRESS = stage(
  'load-balancer-address',
  'Service',
  [
    { key: '.spec.type', operator: 'In', values: ['LoadBalancer'] },
    { key: '.status.loadBalancer.ingress', operator: 'DoesNotExist' },
  ],
  'loadBalancer:\n  ingress:\n    - ip: 192.0.2.1\n',
)

/** The configuration of kwok, which plays nodes and load balancers. @param directory for the log that it serves */
export function kwokConfig(directory: string): string {
  const log = join(directory, 'container.log')
  // The format of container runtimes, which kwok reads.
  writeFileSync(log, `2026-01-01T00:00:00.000000000Z stdout F ${POD_LOG}\n`)
  const logs = {
    apiVersion: 'kwok.x-k8s.io/v1alpha1',
    kind: 'ClusterLogs',
    metadata: { name: 'all' },
    spec: { logs: [{ logsFile: log }] },
  }
  const stages = STAGES.map(stage => readFileSync(join(kwokStages(), `${stage}.yaml`), 'utf8'))
  return [...stages, ...[TEST_POD_ENDS, LOAD_BALANCER_ADDRESS, logs].map(part => stringify(part))].join(
    '\n---\n',
  )
}
