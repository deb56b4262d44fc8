import type { Clock } from '../../domain/clock.ts'
import type { KeyRecord } from '../../domain/key/key-record.ts'
import { ago, clock, type Html, hourClock, html } from '../platform/html/html.ts'
import { keyPath } from '../platform/html/paths.ts'
import { type ChartRange, chartSpan } from './chart-range.ts'
import { lastPoints, type Usage } from './read-usage.ts'
import { COUNTS_OFF, numberText, sumPoints, type UsageView, usagePart } from './usage-chart.ts'

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
  const [points, asOfMs] = await Promise.all([
    usage.queries.readKey(record, span.range),
    usage.queries.asOfMs(),
  ])
  return { span, points, asOfMs }
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
  const points = await usage.queries.readKey(record, lastPoints('hour', 2, registry.clock.wallMs()))
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
