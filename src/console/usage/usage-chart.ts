import { type FormFields, textField } from '../platform/html/form-parts.ts'
import { dateText, type Html, html, type Piece } from '../platform/html/html.ts'
import { lastPoints, type UsagePoint, type UsageRange, type UsageStep } from './read-usage.ts'

const DAY_MS = 86_400_000

interface RangeRow {
  readonly label: string
  readonly step: UsageStep
  readonly points: number
  /** So that the bars of a long range are wide enough on a phone. */
  readonly pointsPerBar: number
  readonly bar: string
}

/** The spans that a chart shows: the value in the URL, and what people read. The first is the default. */
const CHART_RANGES = {
  '24h': { label: '24 hours', step: 'hour', points: 24, pointsPerBar: 1, bar: 'hour' },
  '14d': { label: '14 days', step: 'day', points: 14, pointsPerBar: 1, bar: 'day' },
  '400d': { label: '400 days', step: 'day', points: 400, pointsPerBar: 7, bar: 'week' },
} as const satisfies Record<string, RangeRow>
export type ChartRange = keyof typeof CHART_RANGES

// `Object.keys` forgets the type of a closed record's keys.
const CHART_RANGE_NAMES = Object.keys(CHART_RANGES) as readonly ChartRange[]

/** An unknown range counts as absent. */
export function readChartRange(query: FormFields): ChartRange {
  const sent = textField(query, 'range')
  return CHART_RANGE_NAMES.find(name => name === sent) ?? '24h'
}

export function pointsIn(range: ChartRange, nowMs: number): UsageRange {
  const { step, points } = CHART_RANGES[range]
  return lastPoints(step, points, nowMs)
}

export interface UsageView {
  readonly range: ChartRange
  readonly points: readonly UsagePoint[]
}

export const COUNTS_OFF = html`<p class="muted">Requests are not counted: the setting <code>usage.enabled</code> of this console is false.</p>`

/** Links to the ranges, the chart, its numbers, and counts by route and code. @param rangePath the page with a range */
export function usagePart({ range, points }: UsageView, rangePath: (range: ChartRange) => string): Html {
  const bars = groupIntoBars(points, range)
  const { served, notServed } = sumPoints(points)
  const summary = `Requests in ${CHART_RANGES[range].label}: ${numberText(served)} served, ${numberText(notServed)} not served`
  const links = CHART_RANGE_NAMES.map(name => {
    const here = name === range ? html` aria-current="true"` : null
    return html`<li><a href="${rangePath(name)}"${here}>${CHART_RANGES[name].label}</a></li>`
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

/** Requests of an hour, a day or a week. */
export interface UsageBar {
  readonly label: string
  readonly served: number
  readonly notServed: number
}

/** In the order of time. Weeks are counted back from today, so that the first can be shorter. */
export function groupIntoBars(points: readonly UsagePoint[], range: ChartRange): UsageBar[] {
  const { step, pointsPerBar } = CHART_RANGES[range]
  const bars: UsageBar[] = []
  for (let end = points.length; end > 0; end -= pointsPerBar) {
    const own = points.slice(Math.max(0, end - pointsPerBar), end)
    const isLast = end === points.length
    bars.push({ ...sumPoints(own), label: `${barLabel(own, step)}${isLast ? ', so far' : ''}` })
  }
  return bars.reverse()
}

export function sumPoints(points: readonly UsagePoint[]): Pick<UsageBar, 'served' | 'notServed'> {
  const requests = points.reduce((sum, point) => sum + point.requests, 0)
  const served = points.reduce((sum, { byCode }) => sum + (byCode['ok'] ?? 0), 0)
  return { served, notServed: requests - served }
}

function barLabel(points: readonly UsagePoint[], step: 'hour' | 'day'): string {
  const [first, last] = [points[0]?.atMs ?? 0, points.at(-1)?.atMs ?? 0]
  if (step === 'hour') return `${dateText(first)}, ${new Date(first).toISOString().slice(11, 16)}`
  return last - first < DAY_MS ? dateText(first) : `${dateText(first)} to ${dateText(last)}`
}

/** Counts by route or code, the most frequent first. */
export function totalsBy(
  points: readonly UsagePoint[],
  by: 'byCode' | 'byRoute' | 'servedByRoute',
): [name: string, requests: number][] {
  const totals = new Map<string, number>()
  for (const [name, count] of points.flatMap(point => Object.entries(point[by]))) {
    totals.set(name, (totals.get(name) ?? 0) + count)
  }
  return [...totals].sort(([a, more], [b, less]) => less - more || (a < b ? -1 : 1))
}

/** Units of the drawing, which is stretched to the width of the page. */
const HEIGHT = 100
const BAR = 10
const GAP = 1
/** A single request shows beside a million. */
const SHORTEST = 1.5
const NUMBER = new Intl.NumberFormat('en')

export function numberText(count: number): string {
  return NUMBER.format(count)
}

/** Bars above a line for requests that were served, and below it for those that were not: colors are not needed to tell them apart. */
export function usageChart(bars: readonly UsageBar[], summary: string): Html {
  const mostServed = Math.max(0, ...bars.map(({ served }) => served))
  const mostNotServed = Math.max(0, ...bars.map(({ notServed }) => notServed))
  const unit = (HEIGHT - 2 * SHORTEST) / Math.max(1, mostServed + mostNotServed)
  const line = SHORTEST + mostServed * unit
  const width = bars.length * BAR
  const drawn = bars.map((bar, index) => drawBar(bar, { x: index * BAR, line, unit }))
  return html`<svg class="chart" role="img" aria-label="${summary}" viewBox="0 0 ${width} ${HEIGHT}" preserveAspectRatio="none">
    ${drawn}<rect class="line" x="0" y="${fixed(line - 0.25)}" width="${width}" height="0.5"/>
  </svg>`
}

function drawBar(
  { label, served, notServed }: UsageBar,
  { x, line, unit }: { readonly x: number; readonly line: number; readonly unit: number },
): Html {
  const part = (name: string, count: number, side: 'above' | 'below') => {
    if (count === 0) return null
    const height = Math.max(SHORTEST, count * unit)
    const y = side === 'above' ? line - height : line
    return html`<rect class="${name}" x="${x + GAP}" y="${fixed(y)}" width="${BAR - 2 * GAP}" height="${fixed(height)}"/>`
  }
  return html`<g><title>${label}: ${numberText(served)} served, ${numberText(notServed)} not served</title>
    <rect class="area" x="${x}" y="0" width="${BAR}" height="${HEIGHT}"/>${part('served', served, 'above')}${part('not-served', notServed, 'below')}</g>`
}

function fixed(units: number): string {
  return String(Math.round(units * 100) / 100)
}
