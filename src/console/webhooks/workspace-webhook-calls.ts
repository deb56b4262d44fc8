import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { may } from '../platform/access/principal.ts'
import { type AdminCall, declareCalls } from '../platform/http/admin-call.ts'
import { ApiError, invalidField } from '../platform/http/api-error.ts'
import { callerOf, principalOf } from '../platform/http/request-context.ts'
import { fields, listJson, noFields, pageOf, pageQuery } from '../platform/http/request-fields.ts'
import { readPageOptions, workspaceIdOf } from '../platform/http/request-parameters.ts'
import { instant } from '../platform/http/response-fields.ts'
import { delivery, deliveryJson } from './delivery-calls.ts'
import { MAX_URL_LENGTH, URL_EXPECTED } from './workspaces/webhook-address.ts'
import type { WorkspaceWebhook } from './workspaces/workspace-webhook-store.ts'
import { type WorkspaceWebhooks, webhookSiteOf } from './workspaces/workspace-webhooks.ts'

interface WebhookParts {
  /** Null if workspaces may not have webhooks. */
  readonly workspaceWebhooks: WorkspaceWebhooks | null
}

const adminCall = declareCalls<WebhookParts>()

const PATH = '/workspaces/:workspaceId/webhook'
const READS = { method: 'GET', permission: 'keys:read', workspaces: 'own', status: 200 } as const
const WRITES = { method: 'POST', permission: 'keys:write', workspaces: 'own' } as const
const ERRORS = ['not_found', 'webhooks_disabled'] as const

const webhook = Type.Object(
  {
    url: Type.String({ description: 'Without its path for callers that may not change it' }),
    createdAt: instant,
    createdBy: Type.String(),
  },
  { title: 'WorkspaceWebhook' },
)

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
    const mayChange = may(principalOf(request), 'keys:write', workspaceId)
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
    const result = await webhooks.set(workspaceId, body.url, callerOf(request))
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
  status: 200,
  response: Type.Object({
    removed: Type.Boolean({ description: 'False if there was none' }),
  }),
  errors: ERRORS,
  handle: async (parts, { request }) => {
    const { webhooks, workspaceId } = open(parts, request)
    return { removed: await webhooks.remove(workspaceId, callerOf(request)) }
  },
})

const TEST = adminCall({
  ...WRITES,
  id: 'testWorkspaceWebhook',
  url: `${PATH}/test`,
  operation: 'webhook_test',
  summary: 'Sends an event of type `test`, at most one a minute',
  body: noFields,
  status: 200,
  response: Type.Object({ url: Type.String({ description: 'Where it is sent' }) }),
  errors: ERRORS,
  handle: async (parts, { request }) => {
    const { webhooks, workspaceId } = open(parts, request)
    const found = await webhooks.find(workspaceId)
    if (found === null) throw new ApiError('not_found', 'This workspace has no webhook')
    await webhooks.sendTest(workspaceId)
    return { url: found.url }
  },
})

const LIST_DELIVERIES = adminCall({
  ...READS,
  id: 'listWorkspaceWebhookDeliveries',
  url: `${PATH}/deliveries`,
  operation: 'webhook_deliveries',
  summary: 'Deliveries to the webhook of a workspace, newest first',
  query: pageQuery('msg'),
  response: pageOf('deliveries', delivery),
  errors: ERRORS,
  handle: async (parts, { request, query }) => {
    const { webhooks } = open(parts, request)
    const { deliveries, nextAfterId } = await webhooks.list(readPageOptions(request, query))
    return listJson({ deliveries: deliveries.map(deliveryJson) }, nextAfterId)
  },
})

/** The admin API on webhooks of workspaces, without the prefix. */
export const WORKSPACE_WEBHOOK_CALLS: readonly AdminCall<WebhookParts>[] = [
  GET,
  SET,
  REMOVE,
  TEST,
  LIST_DELIVERIES,
]

/** @throws ApiError if the caller may not see the workspace, or workspaces have no webhooks */
function open(
  { workspaceWebhooks }: WebhookParts,
  request: FastifyRequest,
): { readonly webhooks: WorkspaceWebhooks; readonly workspaceId: string } {
  const workspaceId = workspaceIdOf(request)
  if (workspaceWebhooks !== null) return { webhooks: workspaceWebhooks, workspaceId }
  const setting = 'webhooks.workspaces.enabled'
  throw new ApiError('webhooks_disabled', `Workspaces have no webhooks: the setting ${setting} is false`)
}

function webhookJson(found: WorkspaceWebhook, mayChange: boolean) {
  const { url, createdAtMs, createdBy } = found
  // A path may hold a secret of the receiver.
  const shown = mayChange ? url : (webhookSiteOf(found) ?? '')
  return { url: shown, createdAt: new Date(createdAtMs).toISOString(), createdBy }
}
