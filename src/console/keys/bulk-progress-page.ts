import type { FastifyInstance, FastifyReply } from 'fastify'
import { isKeyId } from '../../domain/id-form.ts'
import type { KeyRecord } from '../../domain/key/key-record.ts'
import { combineAnnounced } from '../announcing/index.ts'
import { textField } from '../platform/html/form-parts.ts'
import { type Html, html } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import {
  ADMINISTRATION,
  createFrame,
  readQuery,
  requireWorkspace,
  SHOWS,
  sendPage,
} from '../platform/html/page-request.ts'
import { ALL_KEYS, bulkProgressPath, keysPath, planProgressPath, WORKSPACES } from '../platform/html/paths.ts'
import type { KeyPageParts } from './key-view.ts'
import {
  type BulkProgress,
  bulkSteps,
  isWatched,
  looksAgainNote,
  REFRESH_SECONDS,
  readLastProgress,
  readPlanProgress,
} from './operations/change-progress.ts'
import type { Registry } from './operations/registry.ts'
import { MAX_LIVE } from './search/count-keys.ts'

/** How far a change to several keys has come: the later state of the page that answered it. */
export function bulkProgressRoutes(scope: FastifyInstance, { registry }: KeyPageParts): void {
  scope.get(`${WORKSPACES}/:workspaceId/keys/progress`, SHOWS, (request, reply) =>
    showBulkProgress(registry, reply, requireWorkspace(request)),
  )
  scope.get(`${ALL_KEYS}/progress`, ADMINISTRATION, (_, reply) => showBulkProgress(registry, reply, null))
  scope.get(`${WORKSPACES}/:workspaceId/plan/progress`, ADMINISTRATION, (request, reply) =>
    showBulkProgress(registry, reply, requireWorkspace(request), 'plan'),
  )
}

/** What was changed: the state of the keys, or the plan of their workspace. */
type Changed = 'state' | 'plan'

/** @param workspaceId null: keys of any were changed */
async function showBulkProgress(
  registry: Registry,
  reply: FastifyReply,
  workspaceId: string | null,
  changed: Changed = 'state',
): Promise<FastifyReply> {
  const { stored, clock, inEachRegion } = registry
  const keyId = textField(readQuery(reply.request), 'key')
  const key = isKeyId(keyId) ? await stored.findById(keyId) : null
  const isHere = key !== null && (workspaceId === null || key.record.workspaceId === workspaceId)
  const readProgress = changed === 'plan' ? readPlanProgress : readLastProgress
  const last = isHere ? await readProgress(registry, key) : null
  if (key === null || last === null) return reply.redirect(keysPath(workspaceId), 303)
  const ofAll = await inEachRegion(outbox => outbox.hasAnnounced(workspaceId, clock.wallMs(), 0))
  const progress = { ...last, announced: combineAnnounced([last.announced, ofAll]), lastKeyId: keyId }
  const frame = createFrame(reply, { workspaceId, clock })
  return sendPage(reply, bulkProgressPage(frame, progress, { changed, title: titleOf(changed, key.record) }))
}

function titleOf(changed: Changed, { revokedAtMs, suspendedAtMs }: KeyRecord): string {
  if (changed === 'plan') return 'Plan changed'
  if (revokedAtMs !== null) return 'Keys revoked'
  return suspendedAtMs !== null ? 'Keys suspended' : 'Keys resumed'
}

function bulkProgressPage(
  frame: Frame,
  progress: BulkProgress,
  { changed, title }: { readonly changed: Changed; readonly title: string },
): Html {
  const watched = watchedPath(frame, progress, changed)
  const back = keysPath(frame.workspaceId)
  const main = html`<p class="back"><a href="${back}">Keys</a></p>
    <h1>${title}</h1>
    <p class="lead">Gateways apply changes in their order: one that has confirmed the last key has applied them all.</p>
    ${bulkSteps(progress, watched)}
    ${looksAgainNote(watched)}
    <p class="actions"><a class="button primary" href="${back}">All keys</a></p>`
  const next = watched === null ? null : { path: watched, seconds: REFRESH_SECONDS }
  return page(frame, { title, section: 'keys', main, next })
}

/** Where the later state is; null once it is final. */
function watchedPath({ workspaceId, nowMs }: Frame, progress: BulkProgress, changed: Changed): string | null {
  const { lastKeyId } = progress
  if (lastKeyId === null || !isWatched(progress, nowMs)) return null
  // A plan is that of one workspace.
  if (changed === 'plan' && workspaceId !== null) return planProgressPath(workspaceId, lastKeyId)
  return bulkProgressPath(workspaceId, lastKeyId)
}

/** On the page that answers the change. Without the script it stays, since it says what became of each key, and links to the later state. */
export function watchedSteps(frame: Frame, progress: BulkProgress, changed: Changed = 'state'): Html {
  const watched = watchedPath(frame, progress, changed)
  const link = html`<noscript><p><a href="${watched}">How far the change has come since</a></p></noscript>`
  return html`${bulkSteps(progress, watched)}${watched === null ? null : link}`
}

/** A number of keys in words. Counting stops beyond `MAX_LIVE`. */
export function describeExtent(count: number): string {
  if (count > MAX_LIVE) return `more than ${MAX_LIVE.toLocaleString('en')} keys`
  return `${count.toLocaleString('en')} ${count === 1 ? 'key' : 'keys'}`
}
