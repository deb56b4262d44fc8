import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import { DENIAL_REASONS, type DenialReason, denialRow } from '../../domain/denial.ts'
import { plainPasted } from '../../domain/form/text.ts'
import type { KeyRecord, KeysById } from '../../domain/key/key-record.ts'
import {
  checkKeyId,
  checkSpan,
  downloads,
  filteredListRoutes,
  filterQuery,
  foldedFilters,
  keyIdInput,
  searchInput,
} from '../platform/html/filter-parts.ts'
import {
  type CheckedForm,
  errorSummary,
  type FormFields,
  NO_PROBLEMS,
  type Problems,
  select,
  textField,
} from '../platform/html/form-parts.ts'
import {
  clock,
  copyable,
  exactInstantAndAgo,
  fact,
  type Html,
  hintHtml,
  html,
  keyLink,
  type ListPlace,
  nameHtml,
  type OpeningLine,
  openingLines,
  pageLinks,
} from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { createFrame, readQuery, sendPage } from '../platform/html/page-request.ts'
import { ALL_REFUSALS, keyPath, refusalsPath, WORKSPACES } from '../platform/html/paths.ts'
import { ApiError } from '../platform/http/api-error.ts'
import { type FileFormat, sendFile } from '../platform/http/send-file.ts'
import { refusalJson } from './api.ts'
import {
  MAX_REQUEST_ID,
  REFUSAL_CODES,
  REFUSAL_CURSOR,
  type RefusalFilter,
  type RefusalPage,
} from './read-refusals.ts'
import { requireRefusals, type Usage } from './read-usage.ts'
import type { Refusal } from './reports/check-report.ts'
import { COUNTS_OFF } from './usage-chart.ts'

const PAGE_SIZE = 50
const ORDER = { first: 'Newest rejections', next: 'Older rejections' }

export interface RefusalsPageParts {
  readonly usage: Usage
  readonly keys: { findByIds(ids: readonly string[]): Promise<KeysById> }
  readonly clock: Clock
}

export function refusalRoutes(scope: FastifyInstance, parts: RefusalsPageParts): void {
  filteredListRoutes(scope, {
    own: `${WORKSPACES}/:workspaceId/refusals`,
    all: ALL_REFUSALS,
    show: (...request) => showRefusals(parts, ...request),
    sendFile: (...request) => sendRefusalsFile(parts.usage, ...request),
  })
}

/** The rejections that meet the conditions of the address, newest first. @param workspaceId null: of all workspaces */
async function showRefusals(
  { usage, keys, clock }: RefusalsPageParts,
  reply: FastifyReply,
  workspaceId: string | null,
): Promise<FastifyReply> {
  const frame = createFrame(reply, { workspaceId, clock })
  const { counts, refusals: areStored } = usage.stores
  if (!areStored) return sendPage(reply, around(frame, counts ? REFUSALS_OFF : COUNTS_OFF))
  const query = readQuery(reply.request)
  const form = readRefusalForm(query)
  const checked = checkRefusalForm(form)
  if (!checked.ok) return sendPage(reply, problemsPage(frame, form, checked.problems), 422)
  const cursor = textField(query, 'cursor')
  const after = REFUSAL_CURSOR.test(cursor) ? cursor : null
  const search = { filter: checked.request, workspaceId, limit: PAGE_SIZE, after }
  const found = await usage.queries.searchRefusals(search)
  const ids = new Set([
    ...found.refusals.map(({ keyId }) => keyId),
    ...(form.keyId === '' ? [] : [form.keyId]),
  ])
  const paging = { nextCursor: found.nextAfter, isFirstPage: after === null }
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
    ${refusals.length === 0 ? emptyList(frame, view) : html`${refusalList(refusals, keys, frame)}${downloads(form, 'rejections', refusalsPath(workspaceId))}`}
    ${links}`,
    backToKey(frame, view),
  )
}

/** With the conditions as they were sent. */
function problemsPage(frame: Frame, form: RefusalForm, problems: Problems): Html {
  const content = html`${errorSummary(problems)}
    ${refusalForm(frame.workspaceId, form, problems)}`
  return around(frame, content, null, true)
}

function around(frame: Frame, content: Html, back: Html | null = null, isWrong = false): Html {
  const isOfAll = frame.workspaceId === null
  const main = html`${back}<h1>${isOfAll ? 'Rejections of all workspaces' : 'Rejections'}</h1>${content}`
  return page(frame, { title: 'Rejections', section: isOfAll ? null : 'refusals', main, isWrong })
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
    <p>The request may have been served, its path may not exist, its key may be unknown${workspaceId === null ? null : ' or of another workspace'}, it may be older than ${workspaceId === null ? 'the last 200 rejections of its workspace' : 'these 200 rejections'}, or its gateway has not reported it yet.</p>
    <p>${showAll}</p></div>`
}

/** Conditions on rejections as they stand in the address; empty for none. */
type RefusalForm = Readonly<Record<'request' | 'keyId' | 'code' | 'from' | 'to', string>>

function readRefusalForm(query: FormFields): RefusalForm {
  return {
    request: plainPasted(textField(query, 'request')),
    keyId: plainPasted(textField(query, 'keyId')),
    code: textField(query, 'code'),
    from: textField(query, 'from'),
    to: textField(query, 'to'),
  }
}

function checkRefusalForm({ request, keyId, code, from, to }: RefusalForm): CheckedForm<RefusalFilter> {
  const problems = new Map<string, string>()
  if (request.length > MAX_REQUEST_ID) problems.set('request', `Enter at most ${MAX_REQUEST_ID} characters`)
  checkKeyId(keyId, problems)
  if (code !== '' && !REFUSAL_CODES.includes(code)) problems.set('code', 'Choose one of these codes')
  const span = checkSpan({ from, to }, problems)
  if (problems.size > 0) return { ok: false, problems }
  const chosen = { requestId: request || undefined, keyId: keyId || undefined, code: code || undefined }
  return { ok: true, request: { ...chosen, ...span } }
}

/** A form whose response is at an address that can be shared. @param workspaceId null: of all workspaces */
function refusalForm(workspaceId: string | null, form: RefusalForm, problems: Problems): Html {
  const options = [{ value: '', label: 'Any' }, ...REFUSAL_CODES.map(code => ({ value: code, label: code }))]
  const code = select({ name: 'code', label: 'Code', value: form.code, options, problems })
  const request = { name: 'request', label: 'Request id' }
  return html`<form class="search" role="search" method="get" action="${refusalsPath(workspaceId)}" novalidate data-submits>
    ${searchInput(request, form, problems, html`maxlength="${MAX_REQUEST_ID}" placeholder="X-Request-Id"`)}
    ${foldedFilters({ keyId: keyIdInput(form, problems), code }, form, problems)}
    <button>Filter</button>
  </form>`
}

const COLUMNS = ['at', 'code', 'reason', 'workspaceId', 'keyId', 'route', 'requestId', 'address']

/** The rejections of a page's filter, newest first, as a file. @param workspaceId null: of all workspaces */
function sendRefusalsFile(
  usage: Usage,
  reply: FastifyReply,
  workspaceId: string | null,
  format: FileFormat,
): FastifyReply {
  const { request } = reply
  requireRefusals(usage)
  const checked = checkRefusalForm(readRefusalForm(readQuery(request)))
  if (!checked.ok) throw new ApiError('invalid_request', [...checked.problems.values()].join('. '))
  const { request: filter } = checked
  const file = {
    name: `rejections${workspaceId === null ? '' : `-${workspaceId}`}`,
    columns: COLUMNS,
    toCells: refusalJson,
    toJson: refusalJson,
    readParts: () => usage.queries.readRefusals({ filter, workspaceId }),
  }
  return sendFile(reply, file, format)
}

type Place = Pick<Frame, 'workspaceId' | 'nowMs'>

/** A line for each rejection, which opens to all that is known of it. @param keys those of the rejections, by id */
function refusalList(refusals: readonly Refusal[], keys: KeysById, place: Place): Html {
  const lines = refusals.map((refusal, index) =>
    line(refusal, keys.get(refusal.keyId)?.record ?? null, { ...place, index }),
  )
  return openingLines('Rejections, newest first', lines)
}

function line(
  refusal: Refusal,
  record: KeyRecord | null,
  { workspaceId, nowMs, index }: Place & { readonly index: number },
): OpeningLine {
  const { atMs, code, reason, keyId, route, requestId, address } = refusal
  const explanation = explainRefusal(reason)
  const owner = workspaceId === null ? refusal.workspaceId : null
  const id = html`<code>${keyId}</code>`
  const name =
    record === null ? id : html`<span class="key-name">${nameHtml(record)}</span> ${hintHtml(record)}`
  return {
    summary: [
      html`<span>${clock(atMs, nowMs)}</span>`,
      html`<span class="about"><code>${code}</code></span>`,
      html`<span class="about">${owner === null ? null : html`<span class="muted">${owner}</span> `}${name}</span>`,
      html`<span class="about why">${explanation ?? html`<code>${reason}</code>`}</span>`,
    ],
    facts: [
      fact('Time', exactInstantAndAgo(atMs, nowMs)),
      owner === null
        ? null
        : fact('Workspace', html`<a class="breaks" href="${refusalsPath(owner)}">${owner}</a>`),
      fact('Key', record === null ? id : html`${keyLink({ record })} ${id}`),
      fact('Code', html`<code>${code}</code>`),
      fact(
        'Reason',
        html`${explanation === null ? null : html`${explanation}<br>`}<code class="muted">${reason}</code>`,
      ),
      fact('Route', html`<code class="breaks">${route}</code>`),
      fact('Request id', copyable(`request-${index}`, requestId)),
      fact('Client', html`<code>${address}</code>`),
    ],
  }
}

/** Where clients get a text that says less on purpose, or that does not suit the owner of the key. */
const CLEARER: Partial<Readonly<Record<DenialReason, string>>> = {
  other_workspace: 'The path names another workspace than the one of the key',
  upstream_not_found: 'The upstream has no such resource',
  scope_missing: 'The key lacks the scope that the route requires',
  address_not_allowed: 'The client’s address is not among the allowed addresses of the key',
}

/** @returns null for a reason of a newer gateway */
export function explainRefusal(reason: string): string | null {
  const known = DENIAL_REASONS.find(name => name === reason)
  return known === undefined ? null : (CLEARER[known] ?? denialRow(known).text)
}
