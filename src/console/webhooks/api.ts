import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { toInstant } from '../../domain/form/instant.ts'
import { may } from '../platform/access/principal.ts'
import type { PageOptions } from '../platform/database/query-parts.ts'
import { ApiError, invalidField } from '../platform/http/api-error.ts'
import { type AdminCall, declareCalls } from '../platform/http/calls.ts'
import {
  fields,
  instant,
  instantOrNull,
  listJson,
  noFields,
  pageQuery,
  pageSchema,
  textOrNull,
} from '../platform/http/fields.ts'
import { webhook } from '../platform/http/items.ts'
import {
  describeCaller,
  readPageOptions,
  readWorkspaceId,
  requirePrincipal,
} from '../platform/http/request-context.ts'
import type { DeliveryLog } from './dispatcher.ts'
import type { Delivery } from './rows.ts'
import {
  MAX_URL_LENGTH,
  URL_EXPECTED,
  type WorkspaceWebhook,
  type WorkspaceWebhooks,
  webhookOrigin,
} from './workspace-webhooks.ts'

interface WebhookParts {
  /** To the operator's webhook. */
  readonly deliveries: DeliveryLog
  /** Null if workspaces may not have webhooks. */
  readonly workspaceWebhooks: WorkspaceWebhooks | null
}

const adminCall = declareCalls<WebhookParts>()

const PATH = '/workspaces/:workspaceId/webhook'
const READS = { method: 'GET', permission: 'keys:read', workspaces: 'own' } as const
const WRITES = { method: 'POST', permission: 'keys:write', workspaces: 'own' } as const
const ERRORS = ['not_found', 'webhooks_disabled'] as const

const STATES = ['delivered', 'waiting', 'given_up'] as const

const delivery = Type.Object(
  {
    id: Type.String(),
    type: Type.String({ description: 'A newer release can add types' }),
    keyId: textOrNull,
    at: instant,
    state: Type.Enum([...STATES]),
    attempts: Type.Integer({ minimum: 0 }),
    deliveredAt: instantOrNull,
    nextAttemptAt: instantOrNull,
    lastStatus: Type.Union([Type.Integer(), Type.Null()]),
    lastError: textOrNull,
  },
  { title: 'Delivery' },
)

const LIST_DELIVERIES = adminCall({
  ...READS,
  id: 'listDeliveries',
  url: '/workspaces/:workspaceId/deliveries',
  operation: 'deliveries',
  summary: 'Webhook deliveries of a workspace, newest first',
  query: pageQuery('msg'),
  response: pageSchema('deliveries', delivery),
  errors: ['not_found'],
  handle: ({ deliveries }, { request, query }) => deliveriesJson(deliveries, readPageOptions(request, query)),
})

const GET = adminCall({
  ...READS,
  id: 'getWorkspaceWebhook',
  url: PATH,
  operation: 'webhook',
  summary: 'The webhook of a workspace, without its secret',
  response: Type.Object({ webhook: Type.Union([webhook, Type.Null()]) }),
  errors: ERRORS,
  handle: async (parts, { request }) => {
    const { webhooks, workspaceId } = open(parts, request)
    const found = await webhooks.find(workspaceId)
    const mayChange = may(requirePrincipal(request), 'keys:write', workspaceId)
    return { webhook: found === null ? null : webhookJson(found, mayChange) }
  },
})

const SET = adminCall({
  ...WRITES,
  id: 'setWorkspaceWebhook',
  url: PATH,
  operation: 'webhook_set',
  summary: 'Sets the webhook of a workspace, with a new secret; events that wait go to the new address',
  body: fields({ url: Type.String({ maxLength: MAX_URL_LENGTH, description: URL_EXPECTED }) }),
  status: 201,
  response: Type.Object({
    webhook,
    secret: Type.String({ description: 'Signs the events. In this response and nowhere else' }),
  }),
  errors: ERRORS,
  handle: async (parts, { request, body }) => {
    const { webhooks, workspaceId } = open(parts, request)
    const result = await webhooks.set(workspaceId, body.url, describeCaller(request))
    if (!result.ok) throw invalidField(result.field, result.expected)
    return { webhook: webhookJson(result.webhook, true), secret: result.secret }
  },
})

const REMOVE = adminCall({
  ...WRITES,
  id: 'removeWorkspaceWebhook',
  url: `${PATH}/remove`,
  operation: 'webhook_remove',
  summary: 'Removes the webhook of a workspace; events that wait are not sent',
  body: noFields,
  response: Type.Object({
    removed: Type.Boolean({ description: 'False if there was none' }),
  }),
  errors: ERRORS,
  handle: async (parts, { request }) => {
    const { webhooks, workspaceId } = open(parts, request)
    return { removed: await webhooks.remove(workspaceId, describeCaller(request)) }
  },
})

const TEST = adminCall({
  ...WRITES,
  id: 'testWorkspaceWebhook',
  url: `${PATH}/test`,
  operation: 'webhook_test',
  summary: 'Sends an event of type `test`, at most one a minute',
  body: noFields,
  response: Type.Object({
    url: Type.String({ description: 'Where it is sent' }),
    sent: Type.Boolean({ description: 'False if a test was sent in this minute of the console’s clock' }),
  }),
  errors: ERRORS,
  handle: async (parts, { request }) => {
    const { webhooks, workspaceId } = open(parts, request)
    const found = await webhooks.find(workspaceId)
    if (found === null) throw new ApiError('not_found', 'This workspace has no webhook')
    return { url: found.url, sent: await webhooks.deliveries.sendTest(workspaceId) }
  },
})

const LIST_OWN_DELIVERIES = adminCall({
  ...READS,
  id: 'listWorkspaceWebhookDeliveries',
  url: `${PATH}/deliveries`,
  operation: 'webhook_deliveries',
  summary: 'Deliveries to the webhook of a workspace, newest first',
  query: pageQuery('msg'),
  response: pageSchema('deliveries', delivery),
  errors: ERRORS,
  handle: async (parts, { request, query }) => {
    const { deliveries } = open(parts, request).webhooks
    return deliveriesJson(deliveries, readPageOptions(request, query))
  },
})

/** The admin API on webhooks, without the prefix. */
export const WEBHOOK_CALLS: readonly AdminCall<WebhookParts>[] = [
  LIST_DELIVERIES,
  GET,
  SET,
  REMOVE,
  TEST,
  LIST_OWN_DELIVERIES,
]

/** @throws ApiError if the caller may not see the workspace, or workspaces have no webhooks */
function open(
  { workspaceWebhooks }: WebhookParts,
  request: FastifyRequest,
): { readonly webhooks: WorkspaceWebhooks; readonly workspaceId: string } {
  const workspaceId = readWorkspaceId(request)
  if (workspaceWebhooks !== null) return { webhooks: workspaceWebhooks, workspaceId }
  const setting = 'webhooks.workspaces.enabled'
  throw new ApiError('webhooks_disabled', `Workspaces have no webhooks: the setting ${setting} is false`)
}

function webhookJson(found: WorkspaceWebhook, mayChange: boolean) {
  const { url, createdAtMs, createdBy } = found
  // A path may hold a secret of the receiver.
  const shown = mayChange ? url : (webhookOrigin(found) ?? '')
  return { url: shown, createdAt: toInstant(createdAtMs), createdBy }
}

async function deliveriesJson(log: DeliveryLog, page: PageOptions) {
  const { deliveries, nextAfterId } = await log.list(page)
  return listJson({ deliveries: deliveries.map(deliveryJson) }, nextAfterId)
}

/** `waiting`: for its first or next attempt. */
export function deliveryState({ deliveredAtMs, nextAttemptAtMs }: Delivery): (typeof STATES)[number] {
  if (deliveredAtMs !== null) return 'delivered'
  return nextAttemptAtMs === null ? 'given_up' : 'waiting'
}

function deliveryJson(delivery: Delivery) {
  const { id, type, keyId, atMs, attempts, deliveredAtMs, nextAttemptAtMs, lastStatus, lastError } = delivery
  return {
    id,
    type,
    keyId: keyId === '' ? null : keyId,
    at: toInstant(atMs),
    state: deliveryState(delivery),
    attempts,
    deliveredAt: toInstant(deliveredAtMs),
    nextAttemptAt: toInstant(nextAttemptAtMs),
    lastStatus,
    lastError,
  }
}
