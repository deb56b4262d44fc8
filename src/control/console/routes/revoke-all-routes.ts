import type { FastifyInstance } from 'fastify'
import { plainPasted } from '../../../domain/pasted-text.ts'
import { callerOf } from '../../http/request-context.ts'
import { isKeyId } from '../../registry/operations/ids.ts'
import { revokeAllKeys } from '../../registry/operations/revoke-all.ts'
import { type FormFields, NO_PROBLEMS, textField } from '../forms/form-fields.ts'
import { WORKSPACES } from '../layout/paths.ts'
import type { PageDependencies } from '../page-dependencies.ts'
import { allRevokedPage, partRevokedPage, revokeAllPage } from '../pages/revoke-all-page.ts'
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
    const typed = plainPasted(textField(fieldsOf(request), 'workspace'))
    if (typed !== workspaceId) {
      const problems = new Map([['workspace', `Enter ${workspaceId}, the id of this workspace`]])
      const liveKeys = await registry.repository.countLive(workspaceId)
      return sendPage(reply, revokeAllPage(frame, { workspaceId, liveKeys, typed, problems }), 422)
    }
    const { untilId, revokedBefore } = continuationOf(fieldsOf(request))
    const context = { caller: callerOf(request), mustWait: true, untilId }
    const outcome = await count('revoke_all', () => revokeAllKeys(registry, workspaceId, context))
    const revoked = revokedBefore + outcome.revoked
    if (outcome.leftUntilId === null) {
      return sendPage(reply, allRevokedPage(frame, workspaceId, { ...outcome, revoked }))
    }
    const liveKeys = await registry.repository.countLive(workspaceId)
    const part = { revoked, untilId: outcome.leftUntilId }
    return sendPage(reply, partRevokedPage(frame, { workspaceId, liveKeys }, part))
  })
}

/** What the page of an earlier step has put into its form: how far it came. */
function continuationOf(fields: FormFields): { untilId: string | null; revokedBefore: number } {
  const [untilId, revoked] = [textField(fields, 'until'), Number(textField(fields, 'revoked'))]
  return {
    untilId: isKeyId(untilId) ? untilId : null,
    revokedBefore: Number.isSafeInteger(revoked) && revoked > 0 ? revoked : 0,
  }
}
