import { type Html, html } from '../../platform/html/html.ts'
import { type Frame, page } from '../../platform/html/layout.ts'
import { usagePath, WORKSPACES } from '../../platform/html/paths.ts'
import { dateText } from '../../platform/html/times.ts'
import type { RequestsOf } from '../usage-queries.ts'
import { asOfText } from './usage-page.ts'
import { COUNTS_OFF, countTable } from './usage-part.ts'

export interface AllUsage {
  /** With the most requests first, since then. */
  readonly busiest: readonly RequestsOf[]
  readonly sinceMs: number
  /** The list ends here. */
  readonly limit: number
  /** When the last report of a gateway was stored; null if there is none of the last two days. */
  readonly asOfMs: number | null
}

/** For administrators. @param usage null if requests are not counted */
export function allUsagePage(frame: Frame, usage: AllUsage | null): Html {
  const main = html`<p class="back"><a href="${WORKSPACES}">Workspaces</a></p>
    <h1>Usage of all workspaces</h1>
    ${usage === null ? COUNTS_OFF : counted(frame, usage)}`
  return page(frame, { title: 'Usage of all workspaces', section: null, main })
}

function counted({ nowMs }: Frame, { busiest, sinceMs, limit, asOfMs }: AllUsage): Html {
  const since = dateText(sinceMs)
  const rows = busiest.map(
    ({ name, requests, served }) =>
      [html`<a href="${usagePath(name)}">${name}</a>`, served, requests - served] as const,
  )
  const more = html`<p class="small muted">The ${limit} busiest workspaces. Others had fewer requests.</p>`
  return html`<p class="lead">${asOfText(asOfMs, nowMs)}</p>
    ${rows.length === 0 ? html`<p class="empty">No requests since ${since}.</p>` : html`<div class="card">${countTable(`Requests since ${since}`, ['Workspace', 'Served', 'Not served'], rows)}${rows.length < limit ? null : more}</div>`}`
}
