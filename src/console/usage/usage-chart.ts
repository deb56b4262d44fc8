import {
  dateText,
  fact,
  type Html,
  html,
  instant,
  instantSpan,
  type Piece,
  zoneName,
} from '../platform/html/html.ts'
import { chartPath } from '../platform/html/paths.ts'
import { CHART_RANGE_NAMES, CHART_RANGES, type ChartSpan, CUSTOM } from './chart-range.ts'
import { bucketStartMs, type ChartStep, type UsageCounts, type UsagePoint } from './read-usage.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000

export interface UsageView extends UsageCounts {
  readonly span: ChartSpan
}

export const COUNTS_OFF = html`<p class="muted">Requests are not counted: the setting <code>usage.enabled</code> of this console is false.</p>`

/**
 * Links to the ranges, the chart, its numbers, and counts by route and code.
 * @param place the path of the page, and the id of the part with the chart
 */
export function usagePart(
  { span, points, late }: UsageView,
  place: { readonly path: string; readonly id: string },
): Html {
  const bars = groupIntoBars(points, span)
  const { served, notServed } = sumPoints(points)
  const summary = `Requests in ${span.label}: ${numberText(served)} served, ${numberText(notServed)} not served`
  return html`${rangeChoice(span, place)}
    ${
      served + notServed === 0
        ? html`<p>No requests in ${span.label}${late === 0 ? null : ' whose minute is known'}.</p>`
        : html`${totals(served, notServed)}
    ${drawing(bars, span, summary)}
    <div class="pair tables">${byRoute(points)}${byCode(points)}</div>`
    }${late === 0 ? null : lateRequests(late, points)}`
}

function lateRequests(late: number, points: readonly UsagePoint[]): Html {
  const since = instant(Math.floor((points[0]?.atMs ?? 0) / HOUR_MS) * HOUR_MS)
  return html`<p class="muted">Not drawn: ${numberText(late)} more since ${since}, which gateways reported late and by the hour. The chart of 24 hours has them.</p>`
}

function rangeChoice(
  { name, label, days, bounds, problem }: ChartSpan,
  { path, id }: { readonly path: string; readonly id: string },
): Html {
  const links = CHART_RANGE_NAMES.map(range => {
    const here = range === name && problem === null ? html` aria-current="true"` : null
    return html`<li><a href="${chartPath(path, range, id)}"${here}>${CHART_RANGES[range].label}</a></li>`
  })
  const isOpen = name === CUSTOM || problem !== null
  const input = (field: 'from' | 'to', label: string) =>
    html`<div class="field"><label for="${id}-${field}">${label}</label><input type="date" id="${id}-${field}" name="${field}" value="${days[field]}" min="${bounds.from}" max="${bounds.to}" required></div>`
  return html`<nav class="filters" aria-label="Span of the chart"><ul>${links}</ul></nav>
    <details class="custom"${isOpen ? html` open` : null}><summary>${name === CUSTOM ? `Other days: ${label}` : 'Other days'}</summary>
      <form class="search" method="get" action="${path}#${id}"><input type="hidden" name="range" value="${CUSTOM}">
        ${input('from', 'First day (UTC)')}${input('to', 'Last day (UTC)')}<button>Show</button></form></details>
    ${problem === null ? null : html`<p class="notice warn" role="alert">${problem}</p>`}`
}

function totals(served: number, notServed: number): Html {
  return html`<dl class="figures">${fact('Requests', numberText(served + notServed))}${fact('Success rate', successRate(served, notServed))}${fact('Not served', numberText(notServed))}</dl>`
}

/** Rounded down: 100% means that every request was served. */
export function successRate(served: number, notServed: number): string {
  if (served + notServed === 0) return '–'
  return `${Math.floor((served / (served + notServed)) * 10_000) / 100}%`
}

function drawing(bars: readonly UsageBar[], span: ChartSpan, summary: string): Html {
  const scale = createScale(bars)
  // Days are those of UTC in every browser.
  const zone = span.step !== 'day' ? zoneName(bars.at(-1)?.atMs ?? 0) : 'UTC'
  return html`<figure>
    <p class="legend small"><span class="served">Served, above the line</span> <span class="not-served">Not served, below</span> <span class="none">None</span> <span class="muted">A bar is ${withArticle(span.bar)}, in ${zone}</span></p>
    <div class="plot">
      <svg class="scale" aria-hidden="true">${scale.ticks.map(tick => html`<text x="100%" y="${scale.y(tick)}%">${COMPACT.format(Math.abs(tick))}</text>`)}</svg>
      <div class="bars">${usageChart(bars, summary)}
        <div class="points" aria-hidden="true">${bars.map(point)}</div></div>
      <svg class="times" aria-hidden="true">${timeLabels(bars, span)}</svg>
    </div>
    <details><summary>Numbers of the chart</summary>
      ${countTable(
        html`Requests by ${span.bar}, in ${zone}`,
        ['Time', 'Served', 'Not served', 'Success rate'],
        bars.map(one => [one.label, one.served, one.notServed, successRate(one.served, one.notServed)]),
      )}
    </details>
  </figure>`
}

function withArticle(bar: string): string {
  return /^\d/.test(bar) ? bar : `${bar === 'hour' ? 'an' : 'a'} ${bar}`
}

/** What a bar stands for, shown where the pointer is, or a finger was. The table has the same for keyboards and screen readers. */
function point({ label, served, notServed }: UsageBar, index: number, { length }: readonly UsageBar[]): Html {
  const counts =
    served + notServed === 0
      ? html`No requests`
      : html`${numberText(served)} served<br>${numberText(notServed)} not served<br>Success rate ${successRate(served, notServed)}`
  return html`<span tabindex="-1"${index * 2 < length ? null : html` class="late"`}><span class="tip"><strong>${label}</strong><br>${counts}</span></span>`
}

const DAY_AND_MONTH = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' })
const MONTH_AND_YEAR = new Intl.DateTimeFormat('en-GB', { month: 'short', year: 'numeric', timeZone: 'UTC' })

/** The times of some bars, below their middle. */
function timeLabels(bars: readonly UsageBar[], { step, barsPerTick, pointsPerBar }: ChartSpan): Html[] {
  const stepMs = bucketStartMs(step, pointsPerBar)
  return bars.flatMap(({ atMs }, index) => {
    const place = step !== 'day' ? atMs / stepMs : index
    if (place % barsPerTick !== 0) return []
    const x = ((index + 0.5) / bars.length) * 100
    const anchor = x < 8 ? 'start' : x > 92 ? 'end' : 'middle'
    const at = step !== 'day' ? html` data-at="${new Date(atMs).toISOString()}"` : null
    return [
      html`<text x="${fixed(x)}%" y="1em" text-anchor="${anchor}"${at}>${timeText(atMs, step, pointsPerBar)}</text>`,
    ]
  })
}

function timeText(atMs: number, step: ChartStep, pointsPerBar: number): string {
  if (step !== 'day')
    return atMs % DAY_MS === 0 ? DAY_AND_MONTH.format(atMs) : new Date(atMs).toISOString().slice(11, 16)
  return (pointsPerBar === 1 ? DAY_AND_MONTH : MONTH_AND_YEAR).format(atMs)
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
    rows.map(([code, count]) => [html`<code class="unbroken">${code}</code>`, count]),
  )
}

/** @param rows a name, and its counts or texts */
export function countTable(
  caption: Piece,
  headings: readonly string[],
  rows: readonly (readonly [Piece, ...(number | string)[]])[],
): Html {
  const cell = (count: number | string) =>
    html`<td>${typeof count === 'number' ? numberText(count) : count}</td>`
  return html`<table class="counts"><caption>${caption}</caption>
    <thead><tr>${headings.map(heading => html`<th scope="col">${heading}</th>`)}</tr></thead>
    <tbody>${rows.map(([name, ...counts]) => html`<tr><th scope="row">${name}</th>${counts.map(cell)}</tr>`)}</tbody>
  </table>`
}

/** Requests of some hours or days. */
interface UsageBar {
  readonly atMs: number
  readonly label: Piece
  readonly served: number
  readonly notServed: number
}

/** In the order of time. Counted back from the last, so that the first can be shorter. */
export function groupIntoBars(
  points: readonly UsagePoint[],
  { step, pointsPerBar, isOpen }: Pick<ChartSpan, 'step' | 'pointsPerBar' | 'isOpen'>,
): UsageBar[] {
  const bars: UsageBar[] = []
  for (let end = points.length; end > 0; end -= pointsPerBar) {
    const own = points.slice(Math.max(0, end - pointsPerBar), end)
    const isUnfinished = isOpen && end === points.length
    const label = barLabel(own, step)
    const shown = isUnfinished ? html`${label}, so far` : label
    bars.push({ atMs: own[0]?.atMs ?? 0, ...sumPoints(own), label: shown })
  }
  return bars.reverse()
}

export function sumPoints(points: readonly UsagePoint[]): Pick<UsageBar, 'served' | 'notServed'> {
  const requests = points.reduce((sum, point) => sum + point.requests, 0)
  const served = points.reduce((sum, { byCode }) => sum + (byCode['ok'] ?? 0), 0)
  return { served, notServed: requests - served }
}

function barLabel(points: readonly UsagePoint[], step: ChartStep): Piece {
  const [first, last] = [points[0]?.atMs ?? 0, points.at(-1)?.atMs ?? 0]
  if (step === 'day') return last === first ? dateText(first) : `${dateText(first)} to ${dateText(last)}`
  return last === first ? instant(first) : instantSpan(first, last + bucketStartMs(step, 1))
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

/** A single request shows beside a million. Percent of the height. */
const SHORTEST = 1.5
const GRID_LINES = 4
const NUMBER = new Intl.NumberFormat('en')
const COMPACT = new Intl.NumberFormat('en', { notation: 'compact' })

export function numberText(count: number): string {
  return NUMBER.format(count)
}

interface Scale {
  /** Counts with a line of the grid; those below zero are of requests that were not served. */
  readonly ticks: readonly number[]
  /** Percent of the height. */
  y(count: number): number
}

/** One scale for both sides of the line, with a grid of whole 1, 2 or 5, and their tens. */
function createScale(bars: readonly UsageBar[]): Scale {
  const most = Math.max(0, ...bars.map(({ served }) => served))
  const mostBelow = Math.max(0, ...bars.map(({ notServed }) => notServed))
  const least = Math.max(most, mostBelow, 1) / GRID_LINES
  const tens = 10 ** Math.floor(Math.log10(least))
  const step = Math.max(1, [1, 2, 5, 10].map(factor => factor * tens).find(size => size >= least) ?? 1)
  const above = Math.ceil(most / step)
  const below = Math.floor(mostBelow / step)
  const bottom = Math.max(mostBelow, below * step)
  const unit = (100 - 2 * SHORTEST) / Math.max(1, above * step + bottom)
  return {
    ticks: Array.from({ length: above + below + 1 }, (_, index) => (above - index) * step),
    y: count => fixed(SHORTEST + (above * step - count) * unit),
  }
}

/** Bars above a line for requests that were served, and below it for those that were not: colors are not needed to distinguish them. */
export function usageChart(bars: readonly UsageBar[], summary: string): Html {
  const scale = createScale(bars)
  const grid = scale.ticks.map(
    tick =>
      html`<line class="${tick === 0 ? 'line' : 'grid'}" x1="0" x2="100%" y1="${scale.y(tick)}%" y2="${scale.y(tick)}%"/>`,
  )
  return html`<svg class="chart" role="img" aria-label="${summary}">${grid}${bars.map((bar, index) => drawBar(bar, 100 / bars.length, { index, scale }))}</svg>`
}

/** @param width of the bar with its gaps, in percent */
function drawBar(
  { served, notServed }: UsageBar,
  width: number,
  { index, scale }: { readonly index: number; readonly scale: Scale },
): Html {
  const line = scale.y(0)
  const part = (name: string, top: number, height: number) =>
    html`<rect class="${name}" x="${fixed((index + 0.1) * width)}%" y="${fixed(top)}%" width="${fixed(0.8 * width)}%" height="${fixed(height)}%"/>`
  if (served + notServed === 0) return part('none', line - SHORTEST, SHORTEST)
  const up = Math.max(SHORTEST, line - scale.y(served))
  const down = Math.max(SHORTEST, scale.y(-notServed) - line)
  return html`${served === 0 ? null : part('served', line - up, up)}${notServed === 0 ? null : part('not-served', line, down)}`
}

function fixed(units: number): number {
  return Math.round(units * 100) / 100
}
