import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import { DENIAL_REASONS, type DenialReason, denialRow } from '../../domain/denial.ts'
import type { KeyRecord } from '../../domain/key/key-record.ts'
import { holdsKeyForm } from '../../domain/key/secret.ts'
import { plainPasted } from '../../domain/pasted-text.ts'
import { type FormFields, select, textField } from '../platform/html/form-parts.ts'
import { ago, cell, clock, type Html, hintHtml, html, keyLink } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { createFrame, readQuery, sendPage } from '../platform/html/page-request.ts'
import { FIND_KEY, refusalsPath } from '../platform/html/paths.ts'
import type { Refusal } from './check-report.ts'
import { REFUSALS_KEPT } from './fold-reports.ts'
import {
  MAX_REQUEST_ID,
  REFUSAL_CODES,
  REFUSAL_CURSOR,
  type RefusalPage,
  type RefusalPosition,
  readRefusalCursor,
  refusalCursor,
} from './read-refusals.ts'
import type { Usage } from './read-usage.ts'
import { COUNTS_OFF } from './usage-chart.ts'

const PAGE_SIZE = 50

type KeysById = ReadonlyMap<string, { readonly record: KeyRecord }>

export interface RefusalsPageParts {
  readonly usage: Usage
  readonly keys: { findByIds(ids: readonly string[]): Promise<KeysById> }
  readonly clock: Clock
  readonly keyPrefix: string
}

/** Conditions on rejections as they stand in the address; empty for none. */
interface FilterForm {
  readonly request: string
  readonly code: string
}

/** The rejections that meet the conditions of the address, newest first. @param workspaceId null: of all workspaces */
export async function showRefusals(
  parts: RefusalsPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
  workspaceId: string | null,
): Promise<FastifyReply> {
  const { usage, keys, clock, keyPrefix } = parts
  const frame = createFrame(request, reply, { workspaceId, clock })
  const { counts, refusals: areStored } = usage.stores
  if (!areStored) return sendPage(reply, noRefusalsPage(frame, counts ? 'refusals.enabled' : 'usage.enabled'))
  const query = readQuery(request)
  const form = readFilterForm(query)
  // A redirect leaves no entry in the browser's history.
  if (holdsKeyForm(form.request, keyPrefix)) return reply.redirect(FIND_KEY, 303)
  const cursor = textField(query, 'cursor')
  const after = REFUSAL_CURSOR.test(cursor) ? readRefusalCursor(cursor) : null
  const found = await findRefusals(usage, form, workspaceId, after)
  const refusedKeys = await keys.findByIds([...new Set(found.refusals.map(({ keyId }) => keyId))])
  const paging = { nextCursor: refusalCursor(found.nextAfter), isFirstPage: after === null }
  return sendPage(reply, refusalsPage(frame, { ...found, form, keys: refusedKeys, ...paging }))
}

function readFilterForm(query: FormFields): FilterForm {
  const code = textField(query, 'code')
  return {
    request: plainPasted(textField(query, 'request')).slice(0, MAX_REQUEST_ID),
    code: REFUSAL_CODES.includes(code) ? code : '',
  }
}

/** Of a workspace there are so few that a page shows all. */
async function findRefusals(
  { queries }: Usage,
  { request, code }: FilterForm,
  workspaceId: string | null,
  after: RefusalPosition | null,
): Promise<RefusalPage> {
  if (workspaceId === null) {
    return queries.searchRefusals({ code, requestId: request, limit: PAGE_SIZE, after })
  }
  const kept = await queries.listRefusals({ workspaceId, limit: REFUSALS_KEPT, after: null })
  const refusals = kept.refusals.filter(
    refusal => (request === '' || refusal.requestId === request) && (code === '' || refusal.code === code),
  )
  return { ...kept, refusals, nextAfter: null }
}

interface RefusalsView extends RefusalPage {
  readonly form: FilterForm
  /** Those of the refusals, by id. */
  readonly keys: KeysById
  readonly nextCursor: string | null
  readonly isFirstPage: boolean
}

const REFUSALS_OFF = html`<p class="muted">Rejections are not kept: the setting <code>refusals.enabled</code> of this console is false.</p>`

function refusalsPage(frame: Frame, view: RefusalsView): Html {
  const { refusals, sampled } = view
  const ofEach = frame.workspaceId === null ? 'Of each workspace, the' : 'The'
  return around(
    frame,
    html`<p class="lead">${ofEach} last 200 requests of the last 7 days that were not served although their key was known.</p>
    ${searchForm(frame, view)}
    ${sampled ? html`<p class="notice warn">This list is not complete: there were so many rejections that gateways left some out.</p>` : null}
    ${found(frame, view)}
    ${refusals.length === 0 ? emptyList(frame, view) : table(frame, view)}
    ${paging(frame, view)}`,
  )
}

/** @param off the setting that is false */
function noRefusalsPage(frame: Frame, off: 'usage.enabled' | 'refusals.enabled'): Html {
  return around(frame, off === 'usage.enabled' ? COUNTS_OFF : REFUSALS_OFF)
}

function around(frame: Frame, content: Html): Html {
  const isOfAll = frame.workspaceId === null
  const main = html`<h1>${isOfAll ? 'Rejections of all workspaces' : 'Rejections'}</h1>${content}`
  return page(frame, { title: 'Rejections', section: isOfAll ? null : 'refusals', main })
}

function searchForm({ workspaceId }: Frame, { form }: RefusalsView): Html {
  const options = [{ value: '', label: 'Any' }, ...REFUSAL_CODES.map(code => ({ value: code, label: code }))]
  return html`<form class="search" role="search" method="get" action="${refusalsPath(workspaceId)}" data-submits>
    <div class="field"><label for="request">Request id</label>
      <input type="search" id="request" name="request" value="${form.request}" maxlength="128" autocomplete="off" autocapitalize="off" spellcheck="false" placeholder="X-Request-Id of the response"></div>
    ${select({ name: 'code', label: 'Code', value: form.code, options })}
    <button>Search</button>
  </form>`
}

function isFiltered({ request, code }: FilterForm): boolean {
  return request !== '' || code !== ''
}

function found(
  { workspaceId }: Frame,
  { form, refusals, nextCursor, isFirstPage }: RefusalsView,
): Html | null {
  if (!isFiltered(form) || refusals.length === 0) return null
  const isAll = isFirstPage && nextCursor === null
  const number = refusals.length === 1 ? '1 rejection' : `${refusals.length} rejections`
  const conditions = [
    form.request === '' ? [] : 'this request id',
    form.code === '' ? [] : 'this code',
  ].flat()
  return html`<p class="muted" role="status">${isAll ? html`${number} with ${conditions.join(' and ')}. ` : null}<a href="${refusalsPath(workspaceId)}">Show all</a></p>`
}

function emptyList({ workspaceId }: Frame, { form, nextCursor, isFirstPage }: RefusalsView): Html {
  if (nextCursor !== null) {
    return html`<p class="empty">No match among the rejections examined so far. “Older rejections” continues the search.</p>`
  }
  const showAll = html`<p><a href="${refusalsPath(workspaceId)}">Show all rejections</a></p>`
  if (form.request !== '') {
    return html`<div class="empty"><h2>No rejection with this request id</h2>
    <p>The request may have been served, its key may be unknown${workspaceId === null ? null : ' or of another workspace'}, it may be older than ${workspaceId === null ? 'the last 200 rejections of its workspace' : 'these 200 rejections'}, or its gateway has not reported it yet.</p>
    ${showAll}</div>`
  }
  if (form.code !== '') return html`<div class="empty"><h2>No rejection with this code</h2>${showAll}</div>`
  return html`<p class="empty">${isFirstPage ? 'No rejections in the last 7 days.' : 'No older rejections.'}</p>`
}

function table({ workspaceId, nowMs }: Frame, { refusals, keys }: RefusalsView): Html {
  const workspace = workspaceId === null ? html`<th scope="col">Workspace</th>` : null
  return html`<table class="stacks">
    <caption class="hidden">Rejections, newest first</caption>
    <thead><tr><th scope="col">Time</th>${workspace}<th scope="col">Code and reason</th><th scope="col">Route</th><th scope="col">Key</th><th scope="col">Request id</th><th scope="col">Client</th></tr></thead>
    <tbody>${refusals.map(refusal => {
      const owner = workspaceId === null ? refusal.workspaceId : null
      return row(refusal, keys.get(refusal.keyId)?.record ?? null, owner, nowMs)
    })}</tbody>
  </table>`
}

/** @param owner the workspace, where rejections of all are listed */
function row(refusal: Refusal, record: KeyRecord | null, owner: string | null, nowMs: number): Html {
  const { atMs, route, keyId, requestId, address } = refusal
  const key = record === null ? html`<code>${keyId}</code>` : html`${keyLink({ record })} ${hintHtml(record)}`
  return html`<tr>
    <th scope="row">${clock(atMs, nowMs)} <span class="muted small">${ago(atMs, nowMs)}</span></th>
    ${owner === null ? null : cell('Workspace', html`<a class="breaks" href="${refusalsPath(owner)}">${owner}</a>`)}
    ${cell('Code and reason', html`<span class="why">${codeAndReason(refusal)}</span>`)}
    ${cell('Route', html`<code class="breaks">${route}</code>`)}
    ${cell('Key', html`<span class="breaks">${key}</span>`)}
    ${cell('Request id', html`<code class="breaks">${requestId}</code>`)}
    ${cell('Client', html`<code>${address}</code>`)}
  </tr>`
}

function paging({ workspaceId }: Frame, { form, nextCursor, isFirstPage }: RefusalsView): Html | null {
  if (isFirstPage && nextCursor === null) return null
  const query = Object.fromEntries(Object.entries(form).filter(([, value]) => value !== ''))
  return html`<nav class="paging" aria-label="Pages">
    ${isFirstPage ? null : html`<a class="button" href="${refusalsPath(workspaceId, query)}">Newest rejections</a>`}
    ${nextCursor === null ? null : html`<a class="button" rel="next" href="${refusalsPath(workspaceId, { ...query, cursor: nextCursor })}">Older rejections</a>`}
  </nav>`
}

/** The code that the client saw, and why in words; the name of the reason where the code does not say it. */
function codeAndReason({ code, reason }: Refusal): Html {
  const explanation = explainRefusal(reason)
  const words = explanation === null ? null : html`<br>${explanation}`
  return html`<code>${code}</code>${words}${reason === code ? null : html`<br><code class="muted">${reason}</code>`}`
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
