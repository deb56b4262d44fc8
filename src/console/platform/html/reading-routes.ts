import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { apiPage } from '../../api-reference/api-page.ts'
import { auditPage } from '../../audit/audit-page.ts'
import { keyPage } from '../../keys/pages/key-page.ts'
import type { KeyView } from '../../keys/pages/key-parts.ts'
import type { PageDependencies } from '../../page-dependencies.ts'
import { personOfRequest, requirePerson } from '../../sign-in/authenticate-people.ts'
import { keyUsageOf, recentUseOf } from '../../usage/pages/usage-reading.ts'
import { readChartRange } from './chart-range.ts'
import {
  creatorOf,
  cursorOf,
  frameOf,
  keyOf,
  notFound,
  queryOf,
  sendPage,
  viewOf,
  workspaceOf,
} from './page-request.ts'
import { keysPath, WORKSPACES } from './paths.ts'

const PAGE_SIZE = 50

/** Routes of the pages that change nothing. */
export function readingRoutes(scope: FastifyInstance, sources: PageDependencies): void {
  const options = { onRequest: requirePerson, config: { operation: 'page' } } as const
  const { registry } = sources
  scope.get('/', options, async (request, reply) => reply.redirect(startPath(request), 303))
  scope.get(`${WORKSPACES}/:workspaceId`, options, async (request, reply) =>
    reply.redirect(keysPath(workspaceOf(request)), 303),
  )
  scope.get(`${WORKSPACES}/:workspaceId/keys/:keyId`, options, (request, reply) =>
    showKey(sources, request, reply),
  )
  scope.get(`${WORKSPACES}/:workspaceId/audit`, options, (request, reply) =>
    showAudit(sources, request, reply),
  )
  scope.get(`${WORKSPACES}/:workspaceId/api`, options, async (request, reply) => {
    const workspaceId = workspaceOf(request)
    const { document, routes, gatewayUrl, hasOriginOfGateway } = sources
    const canTry = gatewayUrl !== null && hasOriginOfGateway
    const frame = frameOf(request, reply, { workspaceId, clock: registry.clock })
    return sendPage(reply, apiPage(frame, { workspaceId, document, routes, gatewayUrl, canTry }))
  })
  scope.get(`${WORKSPACES}/:workspaceId/api/openapi.json`, options, async request => {
    workspaceOf(request)
    return sources.document
  })
  scope.get(`${WORKSPACES}/*`, options, async () => {
    throw notFound()
  })
}

/** A person with one workspace goes straight to it. */
function startPath(request: FastifyRequest): string {
  const { workspaces, administrator } = personOfRequest(request)
  const [first] = workspaces
  return first !== undefined && workspaces.length === 1 && !administrator ? keysPath(first) : WORKSPACES
}

async function showKey(
  sources: PageDependencies,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { registry } = sources
  const { record } = await keyOf(request, registry)
  const relative = async (id: string | null): Promise<KeyView | null> => {
    const key = id === null ? null : await registry.repository.findById(id)
    return key === null ? null : viewOf(key.record, registry)
  }
  const [origin, leaks, key, predecessor, successor, usage, recent] = await Promise.all([
    registry.repository.findOrigin(record),
    registry.repository.listLeaks(record.id),
    viewOf(record, registry),
    relative(record.rotatedFrom),
    relative(record.replacedBy),
    keyUsageOf(sources, record, readChartRange(queryOf(request))),
    recentUseOf(sources, record),
  ])
  const recentOfOld = await recentUseOf(
    sources,
    predecessor?.state === 'retiring' ? predecessor.record : null,
  )
  const frame = frameOf(request, reply, { workspaceId: record.workspaceId, clock: registry.clock })
  const details = { key, predecessor, successor, creator: creatorOf(origin), leaks, usage }
  return sendPage(reply, keyPage(frame, { ...details, recent: { key: recent, predecessor: recentOfOld } }))
}

async function showAudit(
  { registry }: PageDependencies,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const workspaceId = workspaceOf(request)
  const cursor = cursorOf(request)
  const options = { workspaceId, limit: PAGE_SIZE, afterId: cursor }
  const { entries, nextAfterId } = await registry.repository.listAudit(options)
  const frame = frameOf(request, reply, { workspaceId, clock: registry.clock })
  const keys = await registry.repository.findByIds(entries.flatMap(({ keyId }) => keyId ?? []))
  const paging = { nextCursor: nextAfterId, isFirstPage: cursor === null }
  return sendPage(reply, auditPage(frame, { workspaceId, entries, keys, ...paging }))
}
