import { type Html, html } from '../../platform/html/html.ts'
import type { UsageBar } from './usage-bars.ts'

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
