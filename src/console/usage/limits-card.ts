import type { RatePolicy } from '../../domain/rate-limit.ts'
import { ago, cell, type Html, html, type Piece } from '../platform/html/html.ts'
import type { LimitsInUse, LimitWindow, RegionWindows } from './limit-windows.ts'
import { numberText } from './usage-chart.ts'

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
      <tbody>${regions.map(({ region, windows }) => windows.map(window => row(region, window, nowMs)))}</tbody>
    </table></section>`
}

function unknownNotice({ region, unknown }: RegionWindows): Html | null {
  if (unknown === null) return null
  const where = region === null ? null : html` in region ${region}`
  return html`<p class="notice">What is left${where} is unknown: ${UNKNOWN_BECAUSE[unknown]}.</p>`
}

function row(region: string | null, { policy, remaining, resetsAtMs }: LimitWindow, nowMs: number): Html {
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

function limitText({ requests, windowSeconds }: RatePolicy): string {
  const window =
    windowSeconds === undefined
      ? 'a month'
      : windowSeconds === 1
        ? 'a second'
        : `in ${numberText(windowSeconds)} seconds`
  return `${numberText(requests)} ${window}`
}
