import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import { DENIAL_REASONS, type DenialReason, denialRow } from '../../domain/denial.ts'
import type { KeyRecord } from '../../domain/key/key-record.ts'
import { holdsKeyForm } from '../../domain/key/secret.ts'
import { plainPasted } from '../../domain/pasted-text.ts'
import { textField } from '../platform/html/form-parts.ts'
import { ago, cell, clockText, exactText, type Html, hintHtml, html, keyLink } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { createFrame, readQuery, requireWorkspace, sendPage } from '../platform/html/page-request.ts'
import { FIND_KEY, refusalsPath } from '../platform/html/paths.ts'
import type { Refusal } from './check-report.ts'
import { REFUSALS_KEPT } from './fold-reports.ts'
import type { Usage } from './read-usage.ts'
import { COUNTS_OFF } from './usage-chart.ts'

const MAX_REQUEST_ID = 128

type KeysById = ReadonlyMap<string, { readonly record: KeyRecord }>

export interface RefusalsPageParts {
  readonly usage: Usage
  readonly keys: { findByIds(ids: readonly string[]): Promise<KeysById> }
  readonly clock: Clock
  readonly keyPrefix: string
}

/** The rejections of a workspace, or those with one request id. */
export async function showRefusals(
  { usage, keys, clock, keyPrefix }: RefusalsPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const workspaceId = requireWorkspace(request)
  const frame = createFrame(request, reply, { workspaceId, clock })
  const { counts, refusals: areStored } = usage.stores
  if (!areStored) return sendPage(reply, noRefusalsPage(frame, counts ? 'refusals.enabled' : 'usage.enabled'))
  const requestId = plainPasted(textField(readQuery(request), 'request')).slice(0, MAX_REQUEST_ID)
  // A redirect leaves no entry in the browser's history.
  if (holdsKeyForm(requestId, keyPrefix)) return reply.redirect(FIND_KEY, 303)
  const kept = await usage.queries.listRefusals({ workspaceId, limit: REFUSALS_KEPT, after: null })
  const refusals = kept.refusals.filter(refusal => requestId === '' || refusal.requestId === requestId)
  const refusedKeys = await keys.findByIds([...new Set(refusals.map(({ keyId }) => keyId))])
  return sendPage(
    reply,
    refusalsPage(frame, { workspaceId, requestId, refusals, sampled: kept.sampled, keys: refusedKeys }),
  )
}

interface RefusalsView {
  readonly workspaceId: string
  /** The request id that was searched; empty for none. */
  readonly requestId: string
  /** Newest first, those with the request id. */
  readonly refusals: readonly Refusal[]
  /** Whether gateways left some out. */
  readonly sampled: boolean
  /** Those of the refusals, by id. */
  readonly keys: KeysById
}

const REFUSALS_OFF = html`<p class="muted">Rejections are not kept: the setting <code>refusals.enabled</code> of this console is false.</p>`

function refusalsPage(frame: Frame, view: RefusalsView): Html {
  const { refusals, sampled, requestId } = view
  return around(
    frame,
    html`<p class="lead">The last 200 requests of the last 7 days that were not served although their key was known.</p>
    ${searchForm(view)}
    ${sampled ? html`<p class="notice warn">This list is not complete: there were so many rejections that gateways left some out.</p>` : null}
    ${requestId === '' || refusals.length === 0 ? null : html`<p class="muted" role="status">${refusals.length === 1 ? '1 rejection' : `${refusals.length} rejections`} with this request id. <a href="${refusalsPath(view.workspaceId)}">Show all</a></p>`}
    ${refusals.length === 0 ? emptyList(view) : table(view, frame.nowMs)}`,
  )
}

/** @param off the setting that is false */
function noRefusalsPage(frame: Frame, off: 'usage.enabled' | 'refusals.enabled'): Html {
  return around(frame, off === 'usage.enabled' ? COUNTS_OFF : REFUSALS_OFF)
}

function around(frame: Frame, content: Html): Html {
  const main = html`<h1>Rejections</h1>${content}`
  return page(frame, { title: 'Rejections', section: 'refusals', main })
}

function searchForm({ workspaceId, requestId }: RefusalsView): Html {
  return html`<form class="search" role="search" method="get" action="${refusalsPath(workspaceId)}">
    <div class="field"><label for="request">Request id</label>
      <input type="search" id="request" name="request" value="${requestId}" maxlength="128" autocomplete="off" autocapitalize="off" spellcheck="false" placeholder="X-Request-Id of the response"></div>
    <button>Search</button>
  </form>`
}

function emptyList({ workspaceId, requestId }: RefusalsView): Html {
  if (requestId === '') return html`<p class="empty">No rejections in the last 7 days.</p>`
  return html`<div class="empty"><h2>No rejection with this request id</h2>
    <p>The request may have been served, its key may be unknown or of another workspace, it may be older than these 200 rejections, or its gateway has not reported it yet.</p>
    <p><a href="${refusalsPath(workspaceId)}">Show all rejections</a></p></div>`
}

function table({ refusals, keys }: RefusalsView, nowMs: number): Html {
  return html`<table class="stacks">
    <caption class="hidden">Rejections, newest first</caption>
    <thead><tr><th scope="col">Time</th><th scope="col">Code and reason</th><th scope="col">Route</th><th scope="col">Key</th><th scope="col">Request id</th><th scope="col">Client</th></tr></thead>
    <tbody>${refusals.map(refusal => row(refusal, keys.get(refusal.keyId)?.record ?? null, nowMs))}</tbody>
  </table>`
}

function row(refusal: Refusal, record: KeyRecord | null, nowMs: number): Html {
  const { atMs, route, keyId, requestId, address } = refusal
  const time = html`<time datetime="${new Date(atMs).toISOString()}" title="${exactText(atMs)}">${clockText(atMs, nowMs)}</time>`
  const key = record === null ? html`<code>${keyId}</code>` : html`${keyLink({ record })} ${hintHtml(record)}`
  return html`<tr>
    <th scope="row">${time} <span class="muted small">${ago(atMs, nowMs)}</span></th>
    ${cell('Code and reason', html`<span class="why">${codeAndReason(refusal)}</span>`)}
    ${cell('Route', html`<code class="breaks">${route}</code>`)}
    ${cell('Key', html`<span class="breaks">${key}</span>`)}
    ${cell('Request id', html`<code class="breaks">${requestId}</code>`)}
    ${cell('Client', html`<code>${address}</code>`)}
  </tr>`
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
