import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { SHOWS } from '../../platform/html/guards.ts'
import { frameOf, queryOf, sendPage } from '../../platform/html/page-request.ts'
import { WORKSPACES } from '../../platform/html/paths.ts'
import { keyUsageOf, readChartRange, recentUseOf } from '../../usage/index.ts'
import { keyPage } from './key-page.ts'
import type { KeyPageParts } from './key-page-parts.ts'
import type { KeyView } from './key-parts.ts'
import { creatorOf, keyOf, viewOf } from './key-request.ts'

/** The page of a key. */
export function keyRoutes(scope: FastifyInstance, parts: KeyPageParts): void {
  scope.get(`${WORKSPACES}/:workspaceId/keys/:keyId`, SHOWS, (request, reply) =>
    showKey(parts, request, reply),
  )
}

async function showKey(
  sources: KeyPageParts,
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
