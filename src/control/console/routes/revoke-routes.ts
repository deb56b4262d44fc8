import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { callerOf } from '../../http/request-context.ts'
import { readChangeProgress } from '../../registry/operations/change-progress.ts'
import { revokeKey } from '../../registry/operations/revoke.ts'
import { requirePerson } from '../../sign-in/authenticate-people.ts'
import { keyPath, WORKSPACES } from '../layout/paths.ts'
import type { PageDependencies } from '../page-dependencies.ts'
import { type RevokeAction, revokedPage, revokePage } from '../pages/revoke-page.ts'
import {
  answerPage,
  frameOf,
  keyOf,
  notFound,
  requireManager,
  requirePersonKeepingForm,
  viewOf,
} from './page-request.ts'

const config = { operation: 'page' } as const

export function revokeRoutes(scope: FastifyInstance, sources: PageDependencies): void {
  for (const act of ['revoke', 'finish'] as const) {
    const path = `${WORKSPACES}/:workspaceId/keys/:keyId/${act}`
    scope.get(path, { preHandler: [requirePerson, requireManager], config }, (request, reply) =>
      showConfirmation(sources, request, reply, act),
    )
    scope.post(path, { preHandler: [requirePersonKeepingForm, requireManager], config }, (request, reply) =>
      revoke(sources, request, reply),
    )
  }
}

/** Redirects if the key is already revoked or expired, or there is no rotation to finish. */
async function showConfirmation(
  { registry }: PageDependencies,
  request: FastifyRequest,
  reply: FastifyReply,
  act: RevokeAction,
): Promise<FastifyReply> {
  const { record } = await keyOf(request, registry)
  const { workspaceId, id } = record
  const key = await viewOf(record, registry)
  const isRevocable = key.state === 'retiring' || (key.state === 'active' && act === 'revoke')
  if (!isRevocable) return reply.redirect(keyPath(workspaceId, id), 303)
  return answerPage(
    reply,
    revokePage(frameOf(request, reply, { workspaceId, clock: registry.clock }), key, act),
  )
}

/** Idempotent: a second request shows the same page. */
async function revoke(
  { registry, count }: PageDependencies,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { record } = await keyOf(request, registry)
  const context = { caller: callerOf(request), idempotency: null }
  const result = await count('revoke', () => revokeKey(registry, record.id, context))
  if (result.kind !== 'done') throw notFound()
  const revocation = await readChangeProgress(registry, result, true)
  const key = await viewOf(result.record, registry)
  const frame = frameOf(request, reply, { workspaceId: record.workspaceId, clock: registry.clock })
  return answerPage(reply, revokedPage(frame, { key, changed: result.changed, revocation }))
}
