import type { Metrics } from '../../observability/metrics/metrics.ts'
import type { AdminTokens } from '../access/admin-tokens.ts'
import type { AdminCall, Operation } from '../http/calls.ts'
import type { Registry } from '../registry/registry.ts'
import type { Usage } from '../usage/create-usage.ts'
import type { WebhookDeliveries } from '../webhooks/webhook-deliveries.ts'
import { auditCalls } from './audit-calls.ts'
import { deliveryCalls } from './delivery-calls.ts'
import { keyCalls } from './key-calls.ts'
import { type SyncParts, syncCalls } from './sync-calls.ts'
import { tokenCalls } from './token-calls.ts'
import { usageCalls } from './usage-calls.ts'
import { whoamiCalls } from './whoami-calls.ts'

/** Calls that answer 201. */
const CREATING: ReadonlySet<Operation> = new Set(['issue', 'rotate', 'token_issue'])

/** The admin API, without its prefix. Counters start at zero, so that an alert on a rate fires on the first request. */
export function adminCalls(
  registry: Registry,
  metrics: Metrics,
  parts: SyncParts & {
    readonly deliveries: WebhookDeliveries
    readonly tokens: AdminTokens
    readonly usage: Usage
  },
): AdminCall[] {
  const calls = [
    ...keyCalls(registry, metrics),
    ...auditCalls(registry),
    ...syncCalls(parts),
    ...deliveryCalls(parts.deliveries),
    ...tokenCalls(parts.tokens),
    ...usageCalls(registry, parts.usage),
    ...whoamiCalls(),
  ]
  for (const { operation } of calls) {
    const success = CREATING.has(operation) ? '201' : '200'
    for (const code of [success, '500']) metrics.adminRequests.inc({ operation, code }, 0)
  }
  return calls
}
