import { type Html, html, type Piece } from '../../platform/html/html.ts'
import type { UsagePoint } from '../usage-points.ts'
import { CHART_RANGE_NAMES, CHART_RANGES, type ChartRange } from './chart-range.ts'
import { barsOf, sumsOf, totalsBy, type UsageBar } from './usage-bars.ts'
import { numberText, usageChart } from './usage-chart.ts'

export interface UsageView {
  readonly range: ChartRange
  readonly points: readonly UsagePoint[]
}

export const COUNTS_OFF = html`<p class="muted">Requests are not counted: the setting <code>usage.enabled</code> of this console is false.</p>`

/** Links to the ranges, the chart, its numbers, and counts by route and code. @param pathOf the page with a range */
export function usagePart({ range, points }: UsageView, pathOf: (range: ChartRange) => string): Html {
  const bars = barsOf(points, range)
  const { served, notServed } = sumsOf(points)
  const summary = `Requests in ${CHART_RANGES[range].label}: ${numberText(served)} served, ${numberText(notServed)} not served`
  const links = CHART_RANGE_NAMES.map(name => {
    const here = name === range ? html` aria-current="true"` : null
    return html`<li><a href="${pathOf(name)}"${here}>${CHART_RANGES[name].label}</a></li>`
  })
  return html`<nav class="filters" aria-label="Span of the chart"><ul>${links}</ul></nav>
    <p>${summary}.</p>
    ${served + notServed === 0 ? null : drawing(bars, range, summary)}
    ${served + notServed === 0 ? null : html`<div class="pair tables">${byRoute(points)}${byCode(points)}</div>`}`
}

function drawing(bars: readonly UsageBar[], range: ChartRange, summary: string): Html {
  const most = Math.max(...bars.map(({ served, notServed }) => served + notServed))
  const { bar } = CHART_RANGES[range]
  return html`<figure>
    <p class="legend small"><span class="served">Served, above the line</span> <span class="not-served">Not served, below</span> <span class="muted">At most ${numberText(most)} in ${bar === 'hour' ? 'an' : 'a'} ${bar}</span></p>
    ${usageChart(bars, summary)}
    <p class="axis small muted"><span>${bars[0]?.label ?? ''}</span> <span>${bars.at(-1)?.label ?? ''}</span></p>
    <details><summary>Numbers of the chart</summary>
      ${countTable(
        `Requests by ${bar}, in UTC`,
        ['Time', 'Served', 'Not served'],
        bars.map(one => [one.label, one.served, one.notServed]),
      )}
    </details>
  </figure>`
}

function byRoute(points: readonly UsagePoint[]): Html {
  const served = new Map(totalsBy(points, 'servedByRoute'))
  const rows = totalsBy(points, 'byRoute').map(([route, requests]) => {
    const own = served.get(route) ?? 0
    return [html`<code>${route}</code>`, own, requests - own] as const
  })
  return countTable('By route', ['Route', 'Served', 'Not served'], rows)
}

function byCode(points: readonly UsagePoint[]): Html | null {
  const rows = totalsBy(points, 'byCode').filter(([code]) => code !== 'ok')
  if (rows.length === 0) return null
  return countTable(
    'Not served, by code',
    ['Code', 'Requests'],
    rows.map(([code, count]) => [html`<code>${code}</code>`, count]),
  )
}

/** @param rows a name and its counts */
export function countTable(
  caption: string,
  headings: readonly string[],
  rows: readonly (readonly [Piece, ...number[]])[],
): Html {
  return html`<table class="counts"><caption>${caption}</caption>
    <thead><tr>${headings.map(heading => html`<th scope="col">${heading}</th>`)}</tr></thead>
    <tbody>${rows.map(([name, ...counts]) => html`<tr><th scope="row">${name}</th>${counts.map(count => html`<td>${numberText(count)}</td>`)}</tr>`)}</tbody>
  </table>`
}
