import type { StoredKey } from '../../keys/rows/key-repository.ts'
import type { UnusedCounts } from '../../keys/search/count-unused.ts'
import { type Html, html, type Piece } from '../../platform/html/html.ts'
import { hintHtml, keyLink } from '../../platform/html/key-names.ts'
import { type Frame, page } from '../../platform/html/layout.ts'
import {
  keysPath,
  refusalsPath,
  UNUSED_FILTERS,
  UNUSED_NAMES,
  type UnusedFilter,
  usagePath,
} from '../../platform/html/paths.ts'
import { clockText, dateText } from '../../platform/html/times.ts'
import { RANKED_KEYS, type RequestsOf } from '../usage-queries.ts'
import { numberText } from './usage-chart.ts'
import { COUNTS_OFF, countTable, type UsageView, usagePart } from './usage-part.ts'

/** Requests of a workspace. */
export interface WorkspaceUsage extends UsageView {
  /** When the last report of a gateway was stored; null if there is none of the last two days. */
  readonly asOfMs: number | null
  /** With the most requests first, since then. */
  readonly busiest: readonly RequestsOf[]
  readonly busiestSinceMs: number
  /** The busiest keys, by id. */
  readonly keys: ReadonlyMap<string, Pick<StoredKey, 'record'>>
}

export interface UsagePageView {
  readonly workspaceId: string
  /** Null if requests are not counted. */
  readonly usage: WorkspaceUsage | null
  readonly unused: UnusedCounts
}

export function usagePage(frame: Frame, { workspaceId, usage, unused }: UsagePageView): Html {
  const main = html`<h1>Usage</h1>
    ${usage === null ? COUNTS_OFF : counted(frame, workspaceId, usage)}
    <section class="card" aria-labelledby="unused"><h2 id="unused">Unused keys</h2>${unusedKeys(workspaceId, unused)}</section>`
  return page(frame, { title: 'Usage', section: 'usage', main })
}

function counted({ nowMs }: Frame, workspaceId: string, usage: WorkspaceUsage): Html {
  return html`<p class="lead">${asOfText(usage.asOfMs, nowMs)}</p>
    <section class="card" aria-labelledby="requests"><h2 id="requests">Requests</h2>
      ${usagePart(usage, range => `${usagePath(workspaceId, range)}#requests`)}
      <p class="small"><a href="${refusalsPath(workspaceId)}">Why single requests were rejected</a></p></section>
    <section class="card" aria-labelledby="busiest"><h2 id="busiest">Busiest keys</h2>${busiestKeys(usage)}</section>`
}

export function asOfText(asOfMs: number | null, nowMs: number): string {
  if (asOfMs === null) return 'No gateway has reported requests in the last two days.'
  return `Requests with a known key, as gateways reported them until ${clockText(asOfMs, nowMs)}.`
}

function busiestKeys({ busiest, busiestSinceMs, keys }: WorkspaceUsage): Html {
  const since = dateText(busiestSinceMs)
  if (busiest.length === 0) return html`<p class="muted">No requests since ${since}.</p>`
  const name = (id: string): Piece => {
    const key = keys.get(id)
    return key === undefined ? html`<code>${id}</code>` : html`${keyLink(key)} ${hintHtml(key.record)}`
  }
  return html`${countTable(
    `Requests since ${since}`,
    ['Key', 'Served', 'Not served'],
    busiest.map(({ name: id, requests, served }) => [name(id), served, requests - served]),
  )}<p class="small muted">Among the ${RANKED_KEYS} keys that were used last.</p>`
}

const UNUSED_COUNTS: Readonly<Record<UnusedFilter, Exclude<keyof UnusedCounts, 'isPartial'>>> = {
  never: 'never',
  '30d': 'days30',
  '90d': 'days90',
}

/** Each number leads to the list of those keys. */
function unusedKeys(workspaceId: string, unused: UnusedCounts): Html {
  const items = UNUSED_NAMES.map(name => {
    const path = keysPath(workspaceId, { state: 'active', unused: name, sort: 'lastUsedAt' })
    const count = `${numberText(unused[UNUSED_COUNTS[name]])}${unused.isPartial ? ' or more' : ''}`
    return html`<div><dt>${UNUSED_FILTERS[name].label}</dt><dd><a href="${path}">${count}</a></dd></div>`
  })
  return html`<p>Active keys by their last use. A key that nothing uses can be revoked.</p><dl class="facts">${items}</dl>`
}
