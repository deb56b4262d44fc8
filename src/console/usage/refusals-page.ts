import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import type { KeysById } from '../../domain/key/key-record.ts'
import { downloads, filterQuery } from '../platform/html/filter-parts.ts'
import { errorSummary, NO_PROBLEMS, type Problems, textField } from '../platform/html/form-parts.ts'
import { type Html, html, type ListPlace, pageLinks } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { createFrame, readQuery, sendPage } from '../platform/html/page-request.ts'
import { FIND_KEY, keyPath, refusalsFilePath, refusalsPath } from '../platform/html/paths.ts'
import { REFUSAL_CURSOR, type RefusalPage, readRefusalCursor, refusalCursor } from './read-refusals.ts'
import type { Usage } from './read-usage.ts'
import { refusalList } from './refusal-list.ts'
import {
  checkRefusalForm,
  holdsKey,
  type RefusalForm,
  readRefusalForm,
  refusalForm,
} from './refusals-form.ts'
import { COUNTS_OFF } from './usage-chart.ts'

const PAGE_SIZE = 50
const ORDER = { first: 'Newest rejections', next: 'Older rejections' }

export interface RefusalsPageParts {
  readonly usage: Usage
  readonly keys: { findByIds(ids: readonly string[]): Promise<KeysById> }
  readonly clock: Clock
  readonly keyPrefix: string
}

/** The rejections that meet the conditions of the address, newest first. @param workspaceId null: of all workspaces */
export async function showRefusals(
  { usage, keys, clock, keyPrefix }: RefusalsPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
  workspaceId: string | null,
): Promise<FastifyReply> {
  const frame = createFrame(request, reply, { workspaceId, clock })
  const { counts, refusals: areStored } = usage.stores
  if (!areStored) return sendPage(reply, noRefusalsPage(frame, counts ? 'refusals.enabled' : 'usage.enabled'))
  const query = readQuery(request)
  const form = readRefusalForm(query)
  // A redirect leaves no entry in the browser's history.
  if (holdsKey(form, keyPrefix)) return reply.redirect(FIND_KEY, 303)
  const checked = checkRefusalForm(form)
  if (!checked.ok) return sendPage(reply, problemsPage(frame, form, checked.problems), 422)
  const cursor = textField(query, 'cursor')
  const after = REFUSAL_CURSOR.test(cursor) ? readRefusalCursor(cursor) : null
  const search = { filter: checked.filter, workspaceId, limit: PAGE_SIZE, after }
  const found = await usage.queries.searchRefusals(search)
  const ids = new Set([
    ...found.refusals.map(({ keyId }) => keyId),
    ...(form.keyId === '' ? [] : [form.keyId]),
  ])
  const paging = { nextCursor: refusalCursor(found.nextAfter), isFirstPage: after === null }
  const view = { ...found, form, keys: await keys.findByIds([...ids]), ...paging }
  return sendPage(reply, refusalsPage(frame, view))
}

interface RefusalsView extends RefusalPage, ListPlace {
  readonly form: RefusalForm
  /** Those of the rejections and of the conditions, by id. */
  readonly keys: KeysById
}

const REFUSALS_OFF = html`<p class="muted">Rejections are not kept: the setting <code>refusals.enabled</code> of this console is false.</p>`

function refusalsPage(frame: Frame, view: RefusalsView): Html {
  const { workspaceId } = frame
  const { refusals, sampled, form, keys } = view
  const ofEach = workspaceId === null ? 'Of each workspace, the' : 'The'
  const links = pageLinks(view, cursor => refusalsPath(workspaceId, { ...filterQuery(form), cursor }), ORDER)
  return around(
    frame,
    html`<p class="lead">${ofEach} last 200 requests of the last 7 days that were not served although their key was known.</p>
    ${refusalForm(workspaceId, form, NO_PROBLEMS)}
    ${sampled ? html`<p class="notice warn">This list is not complete: there were so many rejections that gateways left some out.</p>` : null}
    ${refusals.length === 0 ? emptyList(frame, view) : html`${refusalList(refusals, keys, frame)}${files(frame, form)}`}
    ${links}`,
    backToKey(frame, view),
  )
}

/** @param off the setting that is false */
function noRefusalsPage(frame: Frame, off: 'usage.enabled' | 'refusals.enabled'): Html {
  return around(frame, off === 'usage.enabled' ? COUNTS_OFF : REFUSALS_OFF)
}

/** With the conditions as they were sent. */
function problemsPage(frame: Frame, form: RefusalForm, problems: Problems): Html {
  const content = html`${errorSummary(problems)}
    ${refusalForm(frame.workspaceId, form, problems)}`
  return around(frame, content, null, 'Error: Rejections')
}

function around(frame: Frame, content: Html, back: Html | null = null, title = 'Rejections'): Html {
  const isOfAll = frame.workspaceId === null
  const main = html`${back}<h1>${isOfAll ? 'Rejections of all workspaces' : 'Rejections'}</h1>${content}`
  return page(frame, { title, section: isOfAll ? null : 'refusals', main })
}

/** Only where the key is of this workspace. */
function backToKey({ workspaceId }: Frame, { form: { keyId }, keys }: RefusalsView): Html | null {
  if (workspaceId === null || keys.get(keyId)?.record.workspaceId !== workspaceId) return null
  return html`<p class="back"><a href="${keyPath(workspaceId, keyId)}">Key</a></p>`
}

function emptyList({ workspaceId }: Frame, { form, nextCursor, isFirstPage }: RefusalsView): Html {
  if (nextCursor !== null) {
    return html`<p class="empty">No match among the rejections examined so far. “Older rejections” continues the search.</p>`
  }
  const conditions = Object.keys(filterQuery(form))
  if (conditions.length === 0) {
    return html`<p class="empty">${isFirstPage ? 'No rejections in the last 7 days.' : 'No older rejections.'}</p>`
  }
  const showAll = html`<a href="${refusalsPath(workspaceId)}">Show all rejections</a>`
  if (conditions.join() !== 'request') return html`<p class="empty">No rejection matches. ${showAll}</p>`
  return html`<div class="empty"><h2>No rejection with this request id</h2>
    <p>The request may have been served, its key may be unknown${workspaceId === null ? null : ' or of another workspace'}, it may be older than ${workspaceId === null ? 'the last 200 rejections of its workspace' : 'these 200 rejections'}, or its gateway has not reported it yet.</p>
    <p>${showAll}</p></div>`
}

function files({ workspaceId }: Frame, form: RefusalForm): Html {
  return downloads(form, {
    ...{ items: 'rejections', path: refusalsPath(workspaceId) },
    filePath: (format, query) => refusalsFilePath(workspaceId, format, query),
  })
}
