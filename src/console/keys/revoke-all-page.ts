import type { FastifyInstance } from 'fastify'
import { plainPasted } from '../../domain/form/text.ts'
import { isKeyId } from '../../domain/id-form.ts'
import {
  errorSummary,
  type FormFields,
  hidden,
  NO_PROBLEMS,
  type Problems,
  textField,
  textInput,
} from '../platform/html/form-parts.ts'
import { type Html, html } from '../platform/html/html.ts'
import { type Frame, page, workspaceName } from '../platform/html/layout.ts'
import {
  CHANGE_FORMS,
  CHANGES,
  createFrame,
  readFormFields,
  requireWorkspace,
  sendPage,
} from '../platform/html/page-request.ts'
import { keysPath, revokeAllPath, WORKSPACES } from '../platform/html/paths.ts'
import { describeCaller } from '../platform/http/request-context.ts'
import { revokeAllKeys } from './bulk-change.ts'
import { describeExtent, watchedSteps } from './bulk-progress-page.ts'
import type { KeyPageParts } from './key-view.ts'
import type { BulkProgress } from './operations/change-progress.ts'

const REVOKE_ALL = `${WORKSPACES}/:workspaceId/revoke-all`
const REVOKE_ALL_TITLE = 'Revoke all keys'

export function revokeAllRoutes(scope: FastifyInstance, { registry }: KeyPageParts): void {
  const { clock } = registry
  scope.get(REVOKE_ALL, CHANGE_FORMS, async (request, reply) => {
    const workspaceId = requireWorkspace(request)
    const frame = createFrame(reply, { workspaceId, clock })
    const liveKeys = await registry.search.countLive(workspaceId)
    return sendPage(reply, revokeAllPage(frame, { workspaceId, liveKeys, typed: '', problems: NO_PROBLEMS }))
  })
  scope.post(REVOKE_ALL, CHANGES, async (request, reply) => {
    const workspaceId = requireWorkspace(request)
    const frame = createFrame(reply, { workspaceId, clock })
    const typed = plainPasted(textField(readFormFields(request), 'workspace'))
    if (typed !== workspaceId) {
      const problems = new Map([['workspace', `Enter ${workspaceId}, the id of this workspace`]])
      const liveKeys = await registry.search.countLive(workspaceId)
      return sendPage(reply, revokeAllPage(frame, { workspaceId, liveKeys, typed, problems }), 422)
    }
    const { untilId, revokedBefore } = readContinuation(readFormFields(request))
    const context = { caller: describeCaller(request), mustWait: true, untilId }
    const outcome = await revokeAllKeys(registry, workspaceId, context)
    const revoked = revokedBefore + outcome.changed
    if (outcome.leftUntilId === null) {
      return sendPage(reply, allRevokedPage(frame, workspaceId, { ...outcome, revoked }))
    }
    const liveKeys = await registry.search.countLive(workspaceId)
    const part = { revoked, untilId: outcome.leftUntilId }
    return sendPage(reply, partRevokedPage(frame, { workspaceId, liveKeys }, part))
  })
}

/** What the page of an earlier step has put into its form: how far it came. */
function readContinuation(fields: FormFields): { untilId: string | null; revokedBefore: number } {
  const [untilId, revoked] = [textField(fields, 'until'), Number(textField(fields, 'revoked'))]
  return {
    untilId: isKeyId(untilId) ? untilId : null,
    revokedBefore: Number.isSafeInteger(revoked) && revoked > 0 ? revoked : 0,
  }
}

interface RevokeAllView {
  readonly workspaceId: string
  /** Keys that would be revoked now; one more than `MAX_LIVE` at most. */
  readonly liveKeys: number
  readonly typed: string
  readonly problems: Problems
}

/** Asks for the workspace id: two clicks are not enough to revoke all keys of the wrong workspace. */
function revokeAllPage(frame: Frame, { workspaceId, liveKeys, typed, problems }: RevokeAllView): Html {
  const field = {
    name: 'workspace',
    label: 'Workspace id',
    hint: html`Enter <code>${workspaceId}</code> to confirm`,
    problems,
  }
  const back = keysPath(workspaceId)
  const main = html`<p class="back"><a href="${back}">Keys</a></p>
    <h1>${REVOKE_ALL_TITLE}</h1>
    <p class="lead">Revokes <strong>${describeExtent(liveKeys)}</strong> of workspace <strong>${workspaceId}</strong>${workspaceName(frame, workspaceId)}: every active, retiring and suspended one. All gateways reject them within one second. This cannot be undone.</p>
    ${errorSummary(problems)}
    <form class="card" method="post" action="${revokeAllPath(workspaceId)}" novalidate>
      ${hidden({ _csrf: frame.csrfToken })}
      <p>Every program that uses this workspace fails until it gets a new key. To replace a single key, rotate it instead.</p>
      ${textInput(field, typed, html`type="text" spellcheck="false" autocapitalize="off" required`)}
      <div class="actions"><a class="button" href="${back}" autofocus>Keep them</a> <button class="danger">Revoke all keys now</button></div>
    </form>`
  return page(frame, { title: REVOKE_ALL_TITLE, section: 'keys', main, isWrong: problems.size > 0 })
}

/** Some keys are left: the script goes on by itself, and without it a person does. */
function partRevokedPage(
  frame: Frame,
  { workspaceId, liveKeys }: Pick<RevokeAllView, 'workspaceId' | 'liveKeys'>,
  { revoked, untilId }: { readonly revoked: number; readonly untilId: string },
): Html {
  const fields = { _csrf: frame.csrfToken, workspace: workspaceId, until: untilId, revoked: String(revoked) }
  const main = html`<h1>${revoked.toLocaleString('en')} keys revoked so far</h1>
    <p class="lead" role="status"><strong>${describeExtent(liveKeys)}</strong> of workspace <strong>${workspaceId}</strong> still work.</p>
    <form class="card" method="post" action="${revokeAllPath(workspaceId)}" data-continues>
      ${hidden(fields)}
      <p>The console revokes many keys in steps of some seconds. Keep this page open until the last one.</p>
      <div class="actions"><button class="danger">Revoke the rest</button></div>
    </form>`
  return page(frame, { title: 'Revoking all keys', section: 'keys', main })
}

function allRevokedPage(
  frame: Frame,
  workspaceId: string,
  { revoked, ...progress }: BulkProgress & { readonly revoked: number },
): Html {
  const main = html`<p class="back"><a href="${keysPath(workspaceId)}">Keys</a></p>
    <h1>${revoked === 0 ? 'No key to revoke' : revoked === 1 ? '1 key revoked' : `${revoked} keys revoked`}</h1>
    ${revoked === 0 ? html`<p class="notice">Nothing changed: every key of this workspace had already been revoked or had expired.</p>` : null}
    ${watchedSteps(frame, progress)}
    <p class="actions"><a class="button primary" href="${keysPath(workspaceId)}">All keys</a></p>`
  return page(frame, { title: 'All keys revoked', section: 'keys', main })
}
