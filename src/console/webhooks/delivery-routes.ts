import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { CHANGES, SHOWS } from '../platform/html/guards.ts'
import { cursorOf, frameOf, notFound, sendPage, workspaceOf } from '../platform/html/page-request.ts'
import { deliveriesPath, WORKSPACES, webhookPath } from '../platform/html/paths.ts'
import { deliveriesPage, noWebhookPage } from './deliveries-page.ts'
import type { WebhookPageParts } from './webhook-page-parts.ts'

const PATH = `${WORKSPACES}/:workspaceId/deliveries`
const PAGE_SIZE = 50
export const EVENT_ID = /^msg_[0-9A-HJKMNP-TV-Z]{26}$/

export function deliveryRoutes(scope: FastifyInstance, sources: WebhookPageParts): void {
  scope.get(PATH, SHOWS, (request, reply) => showDeliveries(sources, request, reply))
  const back = async (request: FastifyRequest, reply: FastifyReply) =>
    reply.redirect(deliveriesPath(workspaceOf(request)), 303)
  // Where a form leads whose session has expired.
  scope.get(`${PATH}/test`, SHOWS, back)
  scope.get(`${PATH}/:eventId/again`, SHOWS, back)
  scope.post(`${PATH}/test`, CHANGES, async (request, reply) => {
    const workspaceId = workspaceOf(request)
    if (sources.deliveries === null) throw notFound()
    await sources.deliveries.sendTest(workspaceId)
    return back(request, reply)
  })
  scope.post(`${PATH}/:eventId/again`, CHANGES, async (request, reply) => {
    const workspaceId = workspaceOf(request)
    // The router yields a text for each parameter in the path.
    const { eventId: id = '' } = request.params as Record<string, string>
    if (sources.deliveries === null || !EVENT_ID.test(id)) throw notFound()
    await sources.deliveries.sendAgain({ workspaceId, id })
    return back(request, reply)
  })
}

async function showDeliveries(
  { registry, deliveries, workspaceWebhooks }: WebhookPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const workspaceId = workspaceOf(request)
  const frame = frameOf(request, reply, { workspaceId, clock: registry.clock })
  const own = workspaceWebhooks === null ? null : webhookPath(workspaceId)
  if (deliveries === null) return sendPage(reply, noWebhookPage(frame, own))
  const cursor = cursorOf(request)
  const found = await deliveries.list({ workspaceId, limit: PAGE_SIZE, afterId: cursor })
  const keys = await registry.repository.findByIds(found.deliveries.map(({ keyId }) => keyId))
  const paging = { nextCursor: found.nextAfterId, isFirstPage: cursor === null }
  const path = deliveriesPath(workspaceId)
  return sendPage(reply, deliveriesPage(frame, { path, ...found, keys, ...paging }, own))
}
