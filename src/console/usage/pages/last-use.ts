import { type Html, html } from '../../platform/html/html.ts'
import { ago, clockText } from '../../platform/html/times.ts'
import { numberText } from './usage-chart.ts'

const MINUTE_MS = 60_000

/** Requests of the present hour and the one before, which is an hour at least. */
export interface RecentUse {
  readonly sinceMs: number
  readonly served: number
  readonly notServed: number
}

/** `12 seconds ago, as of 04:31:10 UTC`: relative to the last report of a gateway, so that it stays true on an open page. */
export function lastUseAsOf(lastUsedAtMs: number | null, asOfMs: number | null, nowMs: number): Html {
  const asOf = asOfMs === null ? null : html`, as of ${clockText(asOfMs, nowMs)}`
  if (lastUsedAtMs === null) return html`Never used${asOf}`
  const beforeMs = asOfMs === null ? Number.NaN : asOfMs - lastUsedAtMs
  if (asOf === null || !(beforeMs < MINUTE_MS)) return html`Last used ${ago(lastUsedAtMs, nowMs)}${asOf}`
  const seconds = Math.max(0, Math.round(beforeMs / 1000))
  const text = seconds === 1 ? '1 second ago' : `${seconds} seconds ago`
  return html`Last used <time datetime="${new Date(lastUsedAtMs).toISOString()}">${text}</time>${asOf}`
}

/** `Requests since 08:00 UTC: 120 served, 3 not served` @param what names the requests otherwise */
export function recentUseText(
  { sinceMs, served, notServed }: RecentUse,
  nowMs: number,
  what = 'Requests',
): Html {
  const since = clockText(sinceMs, nowMs).replace(':00 UTC', ' UTC')
  return html`${what} since ${since}: <strong>${numberText(served)} served, ${numberText(notServed)} not served</strong>`
}
