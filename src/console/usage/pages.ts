import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import type { KeyRecord } from '../../domain/key/key-record.ts'
import type { RatePolicy } from '../../domain/rate-limit.ts'
import {
  ago,
  cell,
  clock,
  dateText,
  fact,
  type Html,
  hintHtml,
  hourClock,
  html,
  instant,
  keyLink,
  type Piece,
} from '../platform/html/html.ts'
import { type Frame, page, workspaceName } from '../platform/html/layout.ts'
import {
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
  keyPath,
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
import { type ChartRange, chartSpan, readChartRange } from './chart-range.ts'
import type { LimitsInUse, LimitWindow, RegionWindows } from './read-limits.ts'
import { bucketStartMs, lastPoints, RANKED_KEYS, type RequestTotal, type Usage } from './read-usage.ts'
import type { RefusalsPageParts } from './refusals-page.ts'
import { COUNTS_OFF, countTable, numberText, sumPoints, type UsageView, usagePart } from './usage-chart.ts'

/** The present day included. */
const BUSIEST_DAYS = 7
const BUSIEST_KEYS = 10
const BUSIEST_WORKSPACES = 100

/** Active keys that nothing seems to use. A key younger than 30 or 90 days is not counted there, also if it was never used. */
export interface UnusedCounts extends Readonly<Record<UnusedFilter, number>> {
  /** Not all were examined: there can be more. */
  readonly isPartial: boolean
}

export interface UsagePageParts extends RefusalsPageParts {
  readonly search: { countUnused(workspaceId: string): Promise<UnusedCounts> }
  readonly plans: { findPlan(workspaceId: string): Promise<string | null> }
}

export function usageRoutes(scope: FastifyInstance, parts: UsagePageParts): void {
  scope.get(`${WORKSPACES}/:workspaceId/usage`, SHOWS, (_, reply) => showUsage(parts, reply))
  scope.get(ALL_USAGE, SHOWS, (_, reply) => showAllUsage(parts, reply))
}

async function showUsage(parts: UsagePageParts, reply: FastifyReply): Promise<FastifyReply> {
  const { search, plans, clock, usage: sources } = parts
  const workspaceId = requireWorkspace(reply.request)
  const readLimits = async () => sources.limits.ofWorkspace(workspaceId, await plans.findPlan(workspaceId))
  const [usage, unused, limits] = await Promise.all([
    readWorkspace(parts, workspaceId, readChartRange(readQuery(reply.request))),
    search.countUnused(workspaceId),
    readLimits(),
  ])
  const frame = createFrame(reply, { workspaceId, clock })
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
  const [{ points, late }, asOfMs, busiest] = await Promise.all([
    queries.readWorkspace(workspaceId, span.range),
    queries.asOfMs(),
    queries.busiestKeys(workspaceId, days, BUSIEST_KEYS),
  ])
  const busiestSinceMs = bucketStartMs(days.step, days.from)
  return {
    span,
    points,
    late,
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

/** Each number leads to the list of those keys. */
function unusedKeys(workspaceId: string, unused: UnusedCounts): Html {
  const items = UNUSED_NAMES.map(name => {
    const path = keysPath(workspaceId, { state: 'active', unused: name, sort: 'lastUsedAt' })
    const count = `${numberText(unused[name])}${unused.isPartial ? ' or more' : ''}`
    return fact(UNUSED_FILTERS[name].label, html`<a href="${path}">${count}</a>`)
  })
  return html`<p>Active keys by their last use. A key that nothing uses can be revoked.</p><dl class="facts">${items}</dl>`
}

/** For administrators. */
async function showAllUsage(
  { usage: { stores, queries }, clock }: UsagePageParts,
  reply: FastifyReply,
): Promise<FastifyReply> {
  if (!signedInPerson(reply.request).administrator) throw notFound()
  const days = lastPoints('day', BUSIEST_DAYS, clock.wallMs())
  const [busiest, asOfMs] = stores.counts
    ? await Promise.all([queries.busiestWorkspaces(days, BUSIEST_WORKSPACES), queries.asOfMs()])
    : [null, null]
  const frame = createFrame(reply, { workspaceId: null, clock })
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

const MINUTE_MS = 60_000

interface KeyUsageParts {
  readonly registry: { readonly clock: Clock }
  readonly usage: Pick<Usage, 'stores' | 'queries'>
}

/** What the page of a key shows. */
export interface KeyUsage extends UsageView {
  /** Until when counts are complete; null without a report in the last two days. */
  readonly asOfMs: number | null
}

/** @returns null if requests are not counted */
export async function readKeyUsage(
  { registry, usage }: KeyUsageParts,
  record: KeyRecord,
  range: ChartRange,
): Promise<KeyUsage | null> {
  if (!usage.stores.counts) return null
  const span = chartSpan(range, registry.clock.wallMs())
  const [{ points, late }, asOfMs] = await Promise.all([
    usage.queries.readKey(record, span.range),
    usage.queries.asOfMs(),
  ])
  return { span, points, late, asOfMs }
}

/** @param usage null if requests are not counted */
export function keyUsage(
  { record, lastUsedAtMs }: { readonly record: KeyRecord; readonly lastUsedAtMs: number | null },
  usage: KeyUsage | null,
  nowMs: number,
): Html {
  const place = { path: keyPath(record.workspaceId, record.id), id: 'usage' }
  const counted =
    usage === null
      ? COUNTS_OFF
      : html`<p>${lastUseAsOf(lastUsedAtMs, usage.asOfMs, nowMs)}.</p>${usagePart(usage, place)}`
  return html`<section class="card" id="usage" data-refreshes aria-labelledby="usage-title"><h2 id="usage-title">Usage</h2>${counted}</section>`
}

/** `12 seconds ago, as of 04:31:10 UTC`: relative to the last report of a gateway, so that it stays true on an open page. */
export function lastUseAsOf(lastUsedAtMs: number | null, asOfMs: number | null, nowMs: number): Html {
  const asOf = asOfMs === null ? null : html`, as of ${clock(asOfMs, nowMs)}`
  if (lastUsedAtMs === null) return html`Never used${asOf}`
  const beforeMs = asOfMs === null ? Number.NaN : asOfMs - lastUsedAtMs
  if (asOf === null || !(beforeMs < MINUTE_MS)) return html`Last used ${ago(lastUsedAtMs, nowMs)}${asOf}`
  const seconds = Math.max(0, Math.round(beforeMs / 1000))
  const text = seconds === 1 ? '1 second ago' : `${seconds} seconds ago`
  return html`Last used <time datetime="${new Date(lastUsedAtMs).toISOString()}">${text}</time>${asOf}`
}

/** Requests of the present hour and the one before, which is an hour at least. */
export interface RecentUse {
  readonly sinceMs: number
  readonly served: number
  readonly notServed: number
}

/** @returns null without a key, and if requests are not counted */
export async function readRecentUse(
  { registry, usage }: KeyUsageParts,
  record: KeyRecord | null,
): Promise<RecentUse | null> {
  if (record === null || !usage.stores.counts) return null
  const { points } = await usage.queries.readKey(record, lastPoints('hour', 2, registry.clock.wallMs()))
  return { sinceMs: points[0]?.atMs ?? 0, ...sumPoints(points) }
}

/** `Requests since 08:00 UTC: 120 served, 3 not served` @param what names the requests otherwise */
export function recentUseText(
  { sinceMs, served, notServed }: RecentUse,
  nowMs: number,
  what = 'Requests',
): Html {
  return html`${what} since ${hourClock(sinceMs, nowMs)}: <strong>${numberText(served)} served, ${numberText(notServed)} not served</strong>`
}

/** Shown before a key is revoked. Gateways report use with a delay. */
export function lastUseWarning(
  { lastUsedAtMs }: { readonly lastUsedAtMs: number | null },
  recent: RecentUse | null,
  nowMs: number,
): Html {
  const counted = recent === null ? null : html`<p>${recentUseText(recent, nowMs)}.</p>`
  if (lastUsedAtMs === null) {
    return html`<p><strong>This key was never used.</strong> Gateways report use with a delay, so a first use may not show yet.</p>${counted}`
  }
  return html`<p><strong>This key was last used ${ago(lastUsedAtMs, nowMs)}</strong>, at ${instant(lastUsedAtMs)}. Requests with it are rejected as soon as you confirm.</p>${counted}`
}

const UNKNOWN_BECAUSE: Readonly<Record<NonNullable<RegionWindows['unknown']>, Html>> = {
  off: html`this console has no Redis`,
  denied: html`the Redis user of this console may not read the counters: grant it <code>(~postern:limit:* +getrange +pttl)</code>`,
  failed: html`Redis gave this console no usable answer`,
}

/** What is left of each window; null if there is no policy. @param note what to know about these policies */
export function limitsCard(limits: LimitsInUse, nowMs: number, note: Piece = null): Html | null {
  const { plan, regions } = limits
  if (regions.length === 0) return null
  const whose = plan === null ? html`keys without a plan` : html`plan <strong>${plan}</strong>`
  const heading = regions.some(({ region }) => region !== null) ? html`<th scope="col">Region</th>` : null
  return html`<section class="card" aria-labelledby="limits"><h2 id="limits">Rate limits</h2>
    <p>The limits of ${whose}.${note === null ? null : html` ${note}`}</p>
    ${regions.map(unknownNotice)}
    <table class="stacks"><caption class="hidden">What is left of each window</caption>
      <thead><tr><th scope="col">Policy</th>${heading}<th scope="col">Counts</th><th scope="col">Limit</th><th scope="col">Left</th><th scope="col">Window ends</th></tr></thead>
      <tbody>${regions.map(({ region, windows }) => windows.map(window => windowRow(region, window, nowMs)))}</tbody>
    </table></section>`
}

function unknownNotice({ region, unknown }: RegionWindows): Html | null {
  if (unknown === null) return null
  const where = region === null ? null : html` in region ${region}`
  return html`<p class="notice">What is left${where} is unknown: ${UNKNOWN_BECAUSE[unknown]}.</p>`
}

function windowRow(
  region: string | null,
  { policy, remaining, resetsAtMs }: LimitWindow,
  nowMs: number,
): Html {
  const ends = resetsAtMs === null ? null : ago(resetsAtMs, nowMs)
  return html`<tr><th scope="row">${policy.name}</th>
    ${region === null ? null : cell('Region', region)}
    ${cell('Counts', countedText(policy))}
    ${cell('Limit', limitText(policy))}
    ${cell('Left', remaining === null ? 'unknown' : numberText(remaining))}
    ${cell('Window ends', ends ?? (remaining === null ? 'unknown' : 'not begun'))}</tr>`
}

function countedText({ per, route, scope }: RatePolicy): Html {
  const what = per === 'key' ? 'this key' : 'all keys of the workspace'
  if (route !== undefined) return html`${what}, on route <code>${route}</code>`
  return scope === undefined ? html`${what}` : html`${what}, on routes that require <code>${scope}</code>`
}

const USUAL_WINDOWS = new Map([
  [undefined, 'a month'],
  [1, 'a second'],
  [60, 'a minute'],
  [3_600, 'an hour'],
  [86_400, 'a day'],
])

function limitText({ requests, windowSeconds }: RatePolicy): string {
  const window = USUAL_WINDOWS.get(windowSeconds) ?? `in ${numberText(windowSeconds ?? 0)} seconds`
  return `${numberText(requests)} ${window}`
}
