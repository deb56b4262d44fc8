import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { callerOf } from '../http/asked-by.ts'
import { followRevocation } from '../registry/operations/revocation.ts'
import { revokeKey } from '../registry/operations/revoke.ts'
import { requirePerson } from '../sign-in/people.ts'
import { type EndingAct, endedPage, endingPage } from './ending-page.ts'
import { answerPage, frameOf, keyOf, notFound, requirePersonKeepingForm, viewOf } from './page-request.ts'
import type { PageSources } from './page-sources.ts'
import { keyPath, WORKSPACES } from './paths.ts'

const config = { operation: 'page' } as const

export function endingRoutes(scope: FastifyInstance, sources: PageSources): void {
  for (const act of ['revoke', 'finish'] as const) {
    const path = `${WORKSPACES}/:workspaceId/keys/:keyId/${act}`
    scope.get(path, { preHandler: requirePerson, config }, (request, reply) =>
      ask(sources, request, reply, act),
    )
    scope.post(path, { preHandler: requirePersonKeepingForm, config }, (request, reply) =>
      end(sources, request, reply),
    )
  }
}

/** Of a key that has ended there is nothing left to ask, and nothing to finish of one that was not rotated. */
async function ask(
  { registry }: PageSources,
  request: FastifyRequest,
  reply: FastifyReply,
  act: EndingAct,
): Promise<FastifyReply> {
  const { record } = await keyOf(request, registry)
  const { workspaceId, id } = record
  const key = await viewOf(record, registry)
  const ends = key.state === 'retiring' || (key.state === 'active' && act === 'revoke')
  if (!ends) return reply.redirect(keyPath(workspaceId, id), 303)
  return answerPage(
    reply,
    endingPage(frameOf(request, reply, { workspaceId, clock: registry.clock }), key, act),
  )
}

/** Sent again, it answers the same: a key is revoked once. */
async function end(
  { registry, count }: PageSources,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { record } = await keyOf(request, registry)
  const asked = { caller: callerOf(request), repetition: null }
  const result = await count('revoke', () => revokeKey(registry, record.id, asked))
  if (result.kind !== 'done') throw notFound()
  const revocation = await followRevocation(registry, result, true)
  const key = await viewOf(result.record, registry)
  const frame = frameOf(request, reply, { workspaceId: record.workspaceId, clock: registry.clock })
  return answerPage(reply, endedPage(frame, { key, changed: result.changed, revocation }))
}
