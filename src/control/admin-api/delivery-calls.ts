import type { AdminCall } from '../http/calls.ts'
import type { Delivery } from '../webhooks/delivery-rows.ts'
import type { WebhookDeliveries } from '../webhooks/webhook-deliveries.ts'
import { deliveriesQuery } from './admin-schemas.ts'
import { readPageOptions } from './request-parameters.ts'

/** The webhook delivery log, without the prefix. */
export function deliveryCalls(webhookDeliveries: WebhookDeliveries): AdminCall[] {
  return [
    {
      method: 'GET',
      url: '/workspaces/:workspaceId/deliveries',
      operation: 'deliveries',
      permission: 'keys:read',
      workspaces: 'own',
      schema: { querystring: deliveriesQuery },
      handle: async request => {
        const { deliveries: found, nextAfterId } = await webhookDeliveries.list(readPageOptions(request))
        const deliveries = found.map(deliveryJson)
        return nextAfterId === null ? { deliveries } : { deliveries, cursor: nextAfterId }
      },
    },
  ]
}

/** `waiting`: for its first or next attempt. */
export function deliveryState({
  deliveredAtMs,
  nextAttemptAtMs,
}: Delivery): 'delivered' | 'waiting' | 'given_up' {
  if (deliveredAtMs !== null) return 'delivered'
  return nextAttemptAtMs === null ? 'given_up' : 'waiting'
}

function deliveryJson(delivery: Delivery) {
  const { id, type, keyId, atMs, attempts, deliveredAtMs, nextAttemptAtMs, lastStatus, lastError } = delivery
  return {
    id,
    type,
    keyId: keyId === '' ? null : keyId,
    at: new Date(atMs).toISOString(),
    state: deliveryState(delivery),
    attempts,
    deliveredAt: instant(deliveredAtMs),
    nextAttemptAt: instant(nextAttemptAtMs),
    lastStatus,
    lastError,
  }
}

function instant(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
