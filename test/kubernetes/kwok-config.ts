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

/** A pod of `helm test` ends well once it runs. */
const TEST_POD_ENDS = {
  apiVersion: 'kwok.x-k8s.io/v1alpha1',
  kind: 'Stage',
  metadata: { name: 'test-pod-ends' },
  spec: {
    resourceRef: { apiGroup: 'v1', kind: 'Pod' },
    selector: {
      matchExpressions: [
        { key: '.metadata.deletionTimestamp', operator: 'DoesNotExist' },
        { key: '.status.phase', operator: 'In', values: ['Running'] },
        { key: '.metadata.annotations["helm.sh/hook"]', operator: 'In', values: ['test'] },
      ],
    },
    next: { statusTemplate: 'phase: Succeeded' },
  },
}

/** A load balancer gets an address, for which Helm waits. */
const LOAD_BALANCER_ADDRESS = {
  apiVersion: 'kwok.x-k8s.io/v1alpha1',
  kind: 'Stage',
  metadata: { name: 'load-balancer-address' },
  spec: {
    resourceRef: { apiGroup: 'v1', kind: 'Service' },
    selector: {
      matchExpressions: [
        { key: '.spec.type', operator: 'In', values: ['LoadBalancer'] },
        { key: '.status.loadBalancer.ingress', operator: 'DoesNotExist' },
      ],
    },
    next: { statusTemplate: 'loadBalancer:\n  ingress:\n    - ip: 192.0.2.1\n' },
  },
}

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
