import type { KeyView } from '../../keys/pages/key-parts.ts'
import { type Html, html } from '../../platform/html/html.ts'
import { keyUsagePath } from '../../platform/html/paths.ts'
import type { ChartRange } from './chart-range.ts'
import { lastUseAsOf } from './last-use.ts'
import { COUNTS_OFF, type UsageView, usagePart } from './usage-part.ts'

export interface KeyUsage extends UsageView {
  /** When the last report of a gateway was stored; null if there is none of the last two days. */
  readonly asOfMs: number | null
}

/** @param usage null if requests are not counted */
export function keyUsage({ record, lastUsedAtMs }: KeyView, usage: KeyUsage | null, nowMs: number): Html {
  const pathOf = (range: ChartRange) => keyUsagePath(record.workspaceId, record.id, range)
  const counted =
    usage === null
      ? COUNTS_OFF
      : html`<p>${lastUseAsOf(lastUsedAtMs, usage.asOfMs, nowMs)}.</p>${usagePart(usage, pathOf)}`
  return html`<section class="card" aria-labelledby="usage"><h2 id="usage">Usage</h2>${counted}</section>`
}
