import { deliveriesQuery } from '../http/admin-schemas.ts'
import type { Call } from '../http/calls.ts'
import { pageQuestionOf } from '../registry/operations/routes.ts'
import type { Notices } from './deliveries.ts'
import type { Delivery } from './delivery-rows.ts'

/** The admin API on what was told to the webhook, without its prefix. */
export function deliveryCalls(notices: Notices): Call[] {
  return [
    {
      method: 'GET',
      url: '/workspaces/:workspaceId/deliveries',
      operation: 'deliveries',
      forPeople: true,
      schema: { querystring: deliveriesQuery },
      handle: async request => {
        const { deliveries, nextAfterId } = await notices.list(pageQuestionOf(request))
        const answered = deliveries.map(answeredDelivery)
        return nextAfterId === null ? { deliveries: answered } : { deliveries: answered, cursor: nextAfterId }
      },
    },
  ]
}

/** Where it stands with a notice: `waiting` for its first or next attempt. */
export function deliveryState({
  deliveredAtMs,
  nextAttemptAtMs,
}: Delivery): 'delivered' | 'waiting' | 'given_up' {
  if (deliveredAtMs !== null) return 'delivered'
  return nextAttemptAtMs === null ? 'given_up' : 'waiting'
}

function answeredDelivery(delivery: Delivery) {
  const { id, type, keyId, atMs, attempts, deliveredAtMs, nextAttemptAtMs, lastStatus, lastError } = delivery
  return {
    id,
    type,
    keyId,
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
