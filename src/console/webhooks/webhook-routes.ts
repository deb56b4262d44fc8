import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { NO_PROBLEMS, type Problems, textField } from '../platform/html/form-fields.ts'
import { CHANGES, SHOWS } from '../platform/html/guards.ts'
import {
  cursorOf,
  fieldsOf,
  frameOf,
  notFound,
  sendPage,
  workspaceOf,
} from '../platform/html/page-request.ts'
import { WORKSPACES, webhookPath } from '../platform/html/paths.ts'
import { callerOf } from '../platform/http/request-context.ts'
import { EVENT_ID } from './delivery-routes.ts'
import { webhookPage, webhookSecretPage } from './webhook-page.ts'
import type { WebhookPageParts } from './webhook-page-parts.ts'
import type { WorkspaceWebhooks } from './workspaces/workspace-webhooks.ts'

const PATH = `${WORKSPACES}/:workspaceId/webhook`
const PAGE_SIZE = 50

export function webhookRoutes(scope: FastifyInstance, sources: WebhookPageParts): void {
  const back = async (request: FastifyRequest, reply: FastifyReply) =>
    reply.redirect(webhookPath(workspaceOf(request)), 303)
  scope.get(PATH, SHOWS, (request, reply) =>
    show(sources, request, reply, { url: '', problems: NO_PROBLEMS }),
  )
  // Where a form leads whose session has expired.
  for (const path of ['test', 'remove', ':eventId/again']) scope.get(`${PATH}/${path}`, SHOWS, back)
  scope.post(PATH, CHANGES, (request, reply) => set(sources, request, reply))
  scope.post(`${PATH}/remove`, CHANGES, async (request, reply) => {
    await open(sources, request).webhooks.remove(workspaceOf(request), callerOf(request))
    return back(request, reply)
  })
  scope.post(`${PATH}/test`, CHANGES, async (request, reply) => {
    await open(sources, request).webhooks.sendTest(workspaceOf(request))
    return back(request, reply)
  })
  scope.post(`${PATH}/:eventId/again`, CHANGES, async (request, reply) => {
    const { webhooks, workspaceId } = open(sources, request)
    // The router yields a text for each parameter in the path.
    const { eventId: id = '' } = request.params as Record<string, string>
    if (!EVENT_ID.test(id)) throw notFound()
    await webhooks.sendAgain({ workspaceId, id })
    return back(request, reply)
  })
}

async function set(sources: WebhookPageParts, request: FastifyRequest, reply: FastifyReply) {
  const { webhooks, workspaceId } = open(sources, request)
  const url = textField(fieldsOf(request), 'url').trim()
  const result = await webhooks.set(workspaceId, url, callerOf(request))
  if (!result.ok) {
    const problems = new Map([['url', `This must be ${result.expected}`]])
    return show(sources, request, reply, { url, problems })
  }
  const frame = frameOf(request, reply, { workspaceId, clock: sources.registry.clock })
  return sendPage(reply, webhookSecretPage(frame, webhookPath(workspaceId), result.secret))
}

async function show(
  sources: WebhookPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
  form: { readonly url: string; readonly problems: Problems },
): Promise<FastifyReply> {
  const { webhooks, workspaceId } = open(sources, request)
  const { registry } = sources
  const cursor = cursorOf(request)
  const found = await webhooks.list({ workspaceId, limit: PAGE_SIZE, afterId: cursor })
  const keys = await registry.repository.findByIds(found.deliveries.map(({ keyId }) => keyId))
  const paging = { nextCursor: found.nextAfterId, isFirstPage: cursor === null }
  const webhook = await webhooks.find(workspaceId)
  const frame = frameOf(request, reply, { workspaceId, clock: registry.clock })
  const view = { path: webhookPath(workspaceId), webhook, ...form, ...found, keys, ...paging }
  return sendPage(reply, webhookPage(frame, view), form.problems.size > 0 ? 422 : 200)
}

/** @throws if the person may not see the workspace, or workspaces have no webhooks */
function open(
  { workspaceWebhooks }: WebhookPageParts,
  request: FastifyRequest,
): { readonly webhooks: WorkspaceWebhooks; readonly workspaceId: string } {
  const workspaceId = workspaceOf(request)
  if (workspaceWebhooks === null) throw notFound()
  return { webhooks: workspaceWebhooks, workspaceId }
}
