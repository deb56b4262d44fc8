import type { Metrics } from '../observability/metrics.ts'
import type { Call } from './http/calls.ts'
import { type SyncParts, syncCalls } from './registry/announcing/sync.ts'
import { auditCalls } from './registry/operations/audit-calls.ts'
import { keyCalls } from './registry/operations/routes.ts'
import type { Registry } from './registry/registry.ts'
import type { Notices } from './webhooks/deliveries.ts'
import { deliveryCalls } from './webhooks/delivery-calls.ts'

/** The admin API, without its prefix. What it counts starts at zero, so that a first request is a rise. */
export function adminCalls(
  registry: Registry,
  metrics: Metrics,
  parts: SyncParts & { readonly notices: Notices },
): Call[] {
  const calls = [
    ...keyCalls(registry, metrics),
    ...auditCalls(registry),
    ...syncCalls(parts),
    ...deliveryCalls(parts.notices),
  ]
  for (const { operation } of calls) {
    const success = operation === 'issue' || operation === 'rotate' ? '201' : '200'
    for (const code of [success, '500']) metrics.adminRequests.inc({ operation, code }, 0)
  }
  return calls
}
