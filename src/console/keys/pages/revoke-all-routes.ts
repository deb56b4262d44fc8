import type { FastifyInstance } from 'fastify'
import { plainPasted } from '../../../domain/pasted-text.ts'
import { type FormFields, NO_PROBLEMS, textField } from '../../platform/html/form-fields.ts'
import { CHANGE_FORMS, CHANGES } from '../../platform/html/guards.ts'
import { fieldsOf, frameOf, sendPage, workspaceOf } from '../../platform/html/page-request.ts'
import { WORKSPACES } from '../../platform/html/paths.ts'
import { callerOf } from '../../platform/http/request-context.ts'
import { isKeyId } from '../../platform/ids.ts'
import { revokeAllKeys } from '../operations/revoke-all.ts'
import type { KeyPageParts } from './key-page-parts.ts'
import { allRevokedPage, partRevokedPage, revokeAllPage } from './revoke-all-page.ts'

const PATH = `${WORKSPACES}/:workspaceId/revoke-all`

export function revokeAllRoutes(scope: FastifyInstance, { registry, count }: KeyPageParts): void {
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
