import type { FastifyInstance } from 'fastify'
import { callerOf } from '../../http/request-context.ts'
import { revokeAllKeys } from '../../registry/operations/revoke-all.ts'
import { NO_PROBLEMS, textField } from '../forms/form-fields.ts'
import { WORKSPACES } from '../layout/paths.ts'
import type { PageDependencies } from '../page-dependencies.ts'
import { allRevokedPage, revokeAllPage } from '../pages/revoke-all-page.ts'
import { CHANGE_FORMS, CHANGES } from './guards.ts'
import { fieldsOf, frameOf, sendPage, workspaceOf } from './page-request.ts'

const PATH = `${WORKSPACES}/:workspaceId/revoke-all`

export function revokeAllRoutes(scope: FastifyInstance, { registry, count }: PageDependencies): void {
  const { clock } = registry
  scope.get(PATH, CHANGE_FORMS, async (request, reply) => {
    const workspaceId = workspaceOf(request)
    const frame = frameOf(request, reply, { workspaceId, clock })
    const liveKeys = await registry.repository.countLive(workspaceId)
    return sendPage(reply, revokeAllPage(frame, { workspaceId, liveKeys, typed: '', problems: NO_PROBLEMS }))
  })
  scope.post(PATH, CHANGES, async (request, reply) => {
    const workspaceId = workspaceOf(request)
    const frame = frameOf(request, reply, { workspaceId, clock })
    const typed = textField(fieldsOf(request), 'workspace').trim()
    if (typed !== workspaceId) {
      const problems = new Map([['workspace', `Enter ${workspaceId}, the id of this workspace`]])
      const liveKeys = await registry.repository.countLive(workspaceId)
      return sendPage(reply, revokeAllPage(frame, { workspaceId, liveKeys, typed, problems }), 422)
    }
    const context = { caller: callerOf(request), mustWait: true }
    const outcome = await count('revoke_all', () => revokeAllKeys(registry, workspaceId, context))
    return sendPage(reply, allRevokedPage(frame, workspaceId, outcome))
  })
}
