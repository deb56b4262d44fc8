import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { KeyRecord } from '../../domain/key/key-record.ts'
import { clock, dateText, type Html, hintHtml, html, keyLink, type Piece } from '../platform/html/html.ts'
import { type Frame, page, workspaceName } from '../platform/html/layout.ts'
import {
  ADMINISTRATION,
  createFrame,
  notFound,
  readQuery,
  requireWorkspace,
  SHOWS,
  sendPage,
  signedInPerson,
} from '../platform/html/page-request.ts'
import {
  ALL_LIMITS,
  ALL_REFUSALS,
  ALL_USAGE,
  keysPath,
  limitsPath,
  PLANS,
  refusalsPath,
  UNUSED_FILTERS,
  UNUSED_NAMES,
  type UnusedFilter,
  usagePath,
  WORKSPACES,
} from '../platform/html/paths.ts'
import { FILE_FORMATS } from '../platform/http/send-file.ts'
import { type ChartRange, chartSpan, readChartRange } from './chart-range.ts'
import { limitsCard } from './limits-card.ts'
import { bucketStartMs, lastPoints, RANKED_KEYS, type RequestTotal } from './read-usage.ts'
import { sendRefusalsFile } from './refusals-file.ts'
import { type RefusalsPageParts, showRefusals } from './refusals-page.ts'
import { COUNTS_OFF, countTable, numberText, type UsageView, usagePart } from './usage-chart.ts'

/** The present day included. */
const BUSIEST_DAYS = 7
const BUSIEST_KEYS = 10
const BUSIEST_WORKSPACES = 100

/** Active keys that nothing seems to use. A key younger than 30 or 90 days is not counted there, also if it was never used. */
interface UnusedCounts {
  readonly never: number
  readonly days30: number
  readonly days90: number
  /** Not all were examined: there can be more. */
  readonly isPartial: boolean
}

export interface UsagePageParts extends RefusalsPageParts {
  readonly search: { countUnused(workspaceId: string): Promise<UnusedCounts> }
  readonly plans: { findPlan(workspaceId: string): Promise<string | null> }
}

/** Usage and rejections of a workspace, and usage of all. */
export function usageRoutes(scope: FastifyInstance, parts: UsagePageParts): void {
  scope.get(`${WORKSPACES}/:workspaceId/usage`, SHOWS, (request, reply) => showUsage(parts, request, reply))
  scope.get(ALL_USAGE, SHOWS, (request, reply) => showAllUsage(parts, request, reply))
  refusalRoutes(scope, parts)
}

function refusalRoutes(scope: FastifyInstance, parts: RefusalsPageParts): void {
  const { usage } = parts
  const own = `${WORKSPACES}/:workspaceId/refusals`
  scope.get(own, SHOWS, (request, reply) => showRefusals(parts, request, reply, requireWorkspace(request)))
  scope.get(ALL_REFUSALS, ADMINISTRATION, (request, reply) => showRefusals(parts, request, reply, null))
  for (const format of FILE_FORMATS) {
    scope.get(`${own}/entries.${format}`, SHOWS, async (request, reply) =>
      sendRefusalsFile(usage, request, reply, { workspaceId: requireWorkspace(request), format }),
    )
    scope.get(`${ALL_REFUSALS}/entries.${format}`, ADMINISTRATION, async (request, reply) =>
      sendRefusalsFile(usage, request, reply, { workspaceId: null, format }),
    )
  }
}

async function showUsage(
  parts: UsagePageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { search, plans, clock, usage: sources } = parts
  const workspaceId = requireWorkspace(request)
  const readLimits = async () => sources.limits.ofWorkspace(workspaceId, await plans.findPlan(workspaceId))
  const [usage, unused, limits] = await Promise.all([
    readWorkspace(parts, workspaceId, readChartRange(readQuery(request))),
    search.countUnused(workspaceId),
    readLimits(),
  ])
  const frame = createFrame(request, reply, { workspaceId, clock })
  const main = html`<h1>Usage</h1>
    ${usage === null ? COUNTS_OFF : counted(frame, workspaceId, usage)}
    ${limitsCard(limits, frame.nowMs, 'Keys with another plan of their own are held to the numbers of that plan.')}
    ${sources.nearLimits.areLimited ? html`<p><a href="${limitsPath(workspaceId)}">Keys that are close to a limit</a></p>` : null}
    <section class="card" aria-labelledby="unused"><h2 id="unused">Unused keys</h2>${unusedKeys(workspaceId, unused)}</section>`
  return sendPage(reply, page(frame, { title: 'Usage', section: 'usage', main }))
}

/** Requests of a workspace. */
interface WorkspaceUsage extends UsageView {
  /** Until when counts are complete; null without a report in the last two days. */
  readonly asOfMs: number | null
  /** With the most requests first, since then. */
  readonly busiest: readonly RequestTotal[]
  readonly busiestSinceMs: number
  /** The busiest keys, by id. */
  readonly keys: ReadonlyMap<string, { readonly record: KeyRecord }>
}

/** @returns null if requests are not counted */
async function readWorkspace(
  { usage: { stores, queries }, keys, clock }: UsagePageParts,
  workspaceId: string,
  range: ChartRange,
): Promise<WorkspaceUsage | null> {
  if (!stores.counts) return null
  const nowMs = clock.wallMs()
  const days = lastPoints('day', BUSIEST_DAYS, nowMs)
  const span = chartSpan(range, nowMs)
  const [points, asOfMs, busiest] = await Promise.all([
    queries.readWorkspace(workspaceId, span.range),
    queries.asOfMs(),
    queries.busiestKeys(workspaceId, days, BUSIEST_KEYS),
  ])
  const busiestSinceMs = bucketStartMs(days.step, days.from)
  return {
    span,
    points,
    asOfMs,
    busiest,
    busiestSinceMs,
    keys: await keys.findByIds(busiest.map(({ name }) => name)),
  }
}

function counted({ nowMs }: Frame, workspaceId: string, usage: WorkspaceUsage): Html {
  return html`<div class="stack" id="counted" data-refreshes><p class="lead">${asOfText(usage.asOfMs, nowMs)}</p>
    <section class="card" aria-labelledby="requests"><h2 id="requests">Requests</h2>
      ${usagePart(usage, { path: usagePath(workspaceId), id: 'requests' })}
      <p class="small"><a href="${refusalsPath(workspaceId)}">Why single requests were rejected</a></p></section>
    <section class="card" aria-labelledby="busiest"><h2 id="busiest">Busiest keys</h2>${busiestKeys(usage)}</section></div>`
}

function asOfText(asOfMs: number | null, nowMs: number): Html {
  if (asOfMs === null) return html`No gateway has reported requests in the last two days.`
  return html`Requests with a known key, as gateways reported them until ${clock(asOfMs, nowMs)}.`
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

/** For administrators. */
async function showAllUsage(
  { usage: { stores, queries }, clock }: UsagePageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  if (!signedInPerson(request).administrator) throw notFound()
  const days = lastPoints('day', BUSIEST_DAYS, clock.wallMs())
  const [busiest, asOfMs] = stores.counts
    ? await Promise.all([queries.busiestWorkspaces(null, days, BUSIEST_WORKSPACES), queries.asOfMs()])
    : [null, null]
  const frame = createFrame(request, reply, { workspaceId: null, clock })
  const main = html`<p class="back"><a href="${WORKSPACES}">Workspaces</a></p>
    <div class="title"><h1>Usage of all workspaces</h1>
      <div class="actions"><a class="button" href="${ALL_REFUSALS}">Rejections</a> <a class="button" href="${ALL_LIMITS}">Limits nearly used up</a> <a class="button" href="${PLANS}">Plans</a></div></div>
    ${
      busiest === null
        ? COUNTS_OFF
        : html`<p class="lead">${asOfText(asOfMs, frame.nowMs)}</p>
    ${busiestWorkspaces(frame, busiest, bucketStartMs(days.step, days.from))}`
    }`
  return sendPage(reply, page(frame, { title: 'Usage of all workspaces', section: null, main }))
}

function busiestWorkspaces(frame: Frame, busiest: readonly RequestTotal[], sinceMs: number): Html {
  const since = dateText(sinceMs)
  if (busiest.length === 0) return html`<p class="empty">No requests since ${since}.</p>`
  const rows = busiest.map(
    ({ name, requests, served }) =>
      [
        html`<a href="${usagePath(name)}">${name}</a>${workspaceName(frame, name)}`,
        served,
        requests - served,
      ] as const,
  )
  const more = html`<p class="small muted">The ${BUSIEST_WORKSPACES} busiest workspaces. Others had fewer requests.</p>`
  return html`<div class="card">${countTable(`Requests since ${since}`, ['Workspace', 'Served', 'Not served'], rows)}${rows.length < BUSIEST_WORKSPACES ? null : more}</div>`
}
