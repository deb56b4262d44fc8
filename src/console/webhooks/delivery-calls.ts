import { Type } from 'typebox'
import { instant } from '../keys/api/key-json.ts'
import { type AdminCall, declareCalls } from '../platform/http/admin-call.ts'
import { listJson, pageOf, pageQuery } from '../platform/http/request-fields.ts'
import { readPageOptions } from '../platform/http/request-parameters.ts'
import { instantOrNull, instant as instantSchema, textOrNull } from '../platform/http/response-fields.ts'
import type { Delivery } from './delivery-rows.ts'
import type { WebhookDeliveries } from './webhook-deliveries.ts'

const adminCall = declareCalls<{ readonly deliveries: WebhookDeliveries }>()

const STATES = ['delivered', 'waiting', 'given_up'] as const

export const delivery = Type.Object(
  {
    id: Type.String(),
    type: Type.String({ description: 'A newer release can add types' }),
    keyId: textOrNull,
    at: instantSchema,
    state: Type.Enum([...STATES]),
    attempts: Type.Integer({ minimum: 0 }),
    deliveredAt: instantOrNull,
    nextAttemptAt: instantOrNull,
    lastStatus: Type.Union([Type.Integer(), Type.Null()]),
    lastError: textOrNull,
  },
  { title: 'Delivery' },
)

/** The webhook delivery log, without the prefix. */
export const DELIVERY_CALLS: readonly AdminCall<{ readonly deliveries: WebhookDeliveries }>[] = [
  adminCall({
    id: 'listDeliveries',
    method: 'GET',
    url: '/workspaces/:workspaceId/deliveries',
    operation: 'deliveries',
    permission: 'keys:read',
    workspaces: 'own',
    summary: 'Webhook deliveries of a workspace, newest first',
    query: pageQuery('msg'),
    status: 200,
    response: pageOf('deliveries', delivery),
    errors: ['not_found'],
    handle: async ({ deliveries: log }, { request, query }) => {
      const { deliveries, nextAfterId } = await log.list(readPageOptions(request, query))
      return listJson({ deliveries: deliveries.map(deliveryJson) }, nextAfterId)
    },
  }),
]

/** `waiting`: for its first or next attempt. */
export function deliveryState({ deliveredAtMs, nextAttemptAtMs }: Delivery): (typeof STATES)[number] {
  if (deliveredAtMs !== null) return 'delivered'
  return nextAttemptAtMs === null ? 'given_up' : 'waiting'
}

export function deliveryJson(delivery: Delivery) {
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
