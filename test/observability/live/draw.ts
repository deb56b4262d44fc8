import type { Series } from '../../support/prometheus-server.ts'
import type { Panel } from '../dashboards.ts'
import { formatted } from './format.ts'

/** The time axis: the seconds of the run, and the start of each phase. */
export interface Span {
  readonly fromSeconds: number
  readonly toSeconds: number
  readonly marks: readonly number[]
}

export interface Box {
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
}

interface Line {
  readonly name: string
  readonly points: readonly (readonly [number, number])[]
}

const COLOURS = [
  '#3871dc',
  '#e0752d',
  '#5794a0',
  '#c4162a',
  '#56a64b',
  '#8f3bb8',
  '#b5892b',
  '#70707a',
  '#e24d9c',
]
/** Grafana's names of the colours that thresholds use. */
const SHADES: Readonly<Record<string, string>> & { readonly blue: string } = {
  blue: '#3871dc',
  green: '#56a64b',
  orange: '#e0752d',
  red: '#c4162a',
}
const MARGIN = { left: 46, right: 8, top: 26, bottom: 14 }
const LEGEND_LINE = 13
const LEGEND_LINES = 3
const MORE_WIDTH = 70
/** With more lines than this, lines that stay at 0 are omitted. */
const CROWDED = 4
const CHARACTER = 5.6

/** A panel as SVG, similar to Grafana's. */
export function drawPanel(panel: Panel, values: readonly Series[][], box: Box, span: Span): string {
  const { x, y, width, height } = box
  const frame = `<rect width="${width}" height="${height}" rx="3" fill="#fff" stroke="#dcdce2"/>`
  const title = text(8, 17, xmlOf(panel.title), 'font-weight="600" font-size="11.5"')
  const inner =
    panel.kind === 'stat'
      ? drawStat(panel, linesOf(panel, values), box)
      : panel.kind === 'heatmap'
        ? drawHeatmap(values[0] ?? [], box, span)
        : drawGraph(panel, worthDrawing(linesOf(panel, values)), box, span)
  return `<g transform="translate(${x} ${y})">${frame}${title}${inner}</g>\n`
}

function linesOf(panel: Panel, values: readonly Series[][]): Line[] {
  return values.flatMap((found, index) =>
    found.map(({ labels, points }) => ({
      name: (panel.queries[index]?.legend ?? '').replace(
        /\{\{(.+?)\}\}/g,
        (_, label: string) => labels[label] ?? '',
      ),
      points: points.filter(([, value]) => Number.isFinite(value)),
    })),
  )
}

function worthDrawing(lines: readonly Line[]): readonly Line[] {
  const moving = lines.filter(({ points }) => points.some(([, value]) => value !== 0))
  return lines.length > CROWDED && moving.length > 0 ? moving : lines
}

function drawStat(panel: Panel, lines: readonly Line[], { width, height }: Box): string {
  const shown = lines.slice(0, 4)
  const each = (width - 16) / Math.max(1, shown.length)
  return shown
    .map(({ name, points }, index) => {
      const last = points.at(-1)?.[1]
      const value = last === undefined ? 'no data' : formatted(last, panel.unit)
      const size = Math.min(24, (each - 6) / (value.length * 0.58))
      const middle = 8 + each * (index + 0.5)
      const named = text(
        middle,
        height - 12,
        xmlOf(clip(name, each / CHARACTER)),
        'text-anchor="middle" fill="#70707a"',
      )
      const colour = colourOf(last, panel.steps)
      const number = `text-anchor="middle" font-size="${size.toFixed(1)}" font-weight="600" fill="${colour}"`
      return text(middle, height / 2 + 14, xmlOf(value), number) + named
    })
    .join('')
}

function colourOf(value: number | undefined, steps: Panel['steps']): string {
  const reached = steps.filter(step => value !== undefined && (step.value === null || value >= step.value))
  return SHADES[reached.at(-1)?.color ?? ''] ?? SHADES.blue
}

function drawGraph(panel: Panel, lines: readonly Line[], box: Box, span: Span): string {
  const legend = layLegend(lines, box.width)
  const plot = {
    x: MARGIN.left,
    y: MARGIN.top,
    width: box.width - MARGIN.left - MARGIN.right,
    height: box.height - MARGIN.top - MARGIN.bottom - legend.lines * LEGEND_LINE - 4,
  }
  const stacked = panel.stacked ? stack(lines) : lines
  const values = stacked.flatMap(({ points }) => points.map(([, value]) => value))
  const low = Math.min(0, ...values)
  const high = panel.max ?? niceCeiling(values.some(value => value > low) ? Math.max(...values) : low + 1)
  const across = (at: number) =>
    plot.x + ((at - span.fromSeconds) / (span.toSeconds - span.fromSeconds)) * plot.width
  const up = (value: number) => plot.y + plot.height * (1 - (value - low) / (high - low))
  // The last line of a stack is drawn behind the others.
  const drawn = panel.stacked
    ? stacked.map((line, index) => [line, index] as const).reverse()
    : stacked.map((line, index) => [line, index] as const)
  const paths = drawn.map(([{ points }, index]) => {
    const colour = COLOURS[index % COLOURS.length] ?? ''
    const way = pathOf(points.map(([at, value]) => [across(at), up(Math.min(value, high))]))
    const area = panel.stacked && way !== '' ? areaOf(way, points, across, up(low)) : ''
    const fill = area === '' ? '' : `<path d="${area}" fill="${colour}" opacity=".45"/>`
    return `${fill}<path d="${way}" fill="none" stroke="${colour}" stroke-width="1.2"/>`
  })
  return (
    scale(plot, low, high, panel.unit) +
    marks(plot, span) +
    paths.join('') +
    legend.draw(plot.y + plot.height + MARGIN.bottom + 10)
  )
}

function stack(lines: readonly Line[]): Line[] {
  const heights = new Map<number, number>()
  return lines.map(({ name, points }) => ({
    name,
    points: points.map(([at, value]) => {
      const height = (heights.get(at) ?? 0) + value
      heights.set(at, height)
      return [at, height] as const
    }),
  }))
}

function areaOf(way: string, points: Line['points'], across: (at: number) => number, base: number): string {
  const first = points[0]?.[0] ?? 0
  const last = points.at(-1)?.[0] ?? 0
  return `${way}L${Math.round(across(last))} ${Math.round(base)}L${Math.round(across(first))} ${Math.round(base)}z`
}

/** Relative coordinates in whole pixels halve the file. */
function pathOf(points: readonly (readonly number[])[]): string {
  let path = ''
  let [lastX, lastY] = [Number.NaN, Number.NaN]
  for (const [rawX = 0, rawY = 0] of points) {
    const [x, y] = [Math.round(rawX), Math.round(rawY)]
    path += Number.isNaN(lastX) ? `M${x} ${y}` : `l${x - lastX} ${y - lastY}`
    lastX = x
    lastY = y
  }
  return path
}

function scale(plot: Box, low: number, high: number, unit: string): string {
  return [0, 0.5, 1]
    .map(part => {
      const y = Math.round(plot.y + plot.height * (1 - part))
      const value = formatted(low + (high - low) * part, unit)
      const line = `<path d="M${plot.x} ${y}h${plot.width}" stroke="#ececf0"/>`
      return line + text(plot.x - 4, y + 3, value, 'text-anchor="end" fill="#70707a" font-size="9"')
    })
    .join('')
}

function marks(plot: Box, { fromSeconds, toSeconds, marks: at }: Span): string {
  return at
    .map((seconds, index) => {
      const x = Math.round(plot.x + ((seconds - fromSeconds) / (toSeconds - fromSeconds)) * plot.width)
      const line = `<path d="M${x} ${plot.y}v${plot.height}" stroke="#c9c9d2" stroke-dasharray="2 3"/>`
      return (
        line + text(x + 2, plot.y + plot.height + 10, String(index + 1), 'fill="#9a9aa5" font-size="8.5"')
      )
    })
    .join('')
}

function layLegend(lines: readonly Line[], width: number): { lines: number; draw(y: number): string } {
  const room = width - 16
  const places: { name: string; x: number; line: number; colour: string }[] = []
  let x = 0
  let line = 0
  for (const [index, { name }] of lines.entries()) {
    const needed = 14 + name.length * CHARACTER + 8
    const last = line === LEGEND_LINES - 1 && index < lines.length - 1
    if (x + needed > room - (last ? MORE_WIDTH : 0) && x > 0) {
      if (line === LEGEND_LINES - 1) {
        const fits = Math.min(x, room - MORE_WIDTH)
        places.push({ name: `and ${lines.length - index} more`, x: fits, line, colour: 'none' })
        break
      }
      x = 0
      line++
    }
    places.push({ name, x, line, colour: COLOURS[index % COLOURS.length] ?? '' })
    x += needed
  }
  const drawOne = (y: number) => (place: (typeof places)[number]) =>
    `<rect x="${(8 + place.x).toFixed(0)}" y="${y + place.line * LEGEND_LINE - 6}" width="9" height="3" fill="${place.colour}"/>` +
    text(
      20 + Math.round(place.x),
      y + place.line * LEGEND_LINE - 1,
      xmlOf(place.name),
      'fill="#4a4a52" font-size="9.5"',
    )
  return { lines: line + 1, draw: y => places.map(drawOne(y)).join('') }
}

/** Buckets are cumulative: the count of one is the difference to the previous one. */
function drawHeatmap(series: readonly Series[], box: Box, span: Span): string {
  const sorted = [...series].sort((a, b) => Number(a.labels['le']) - Number(b.labels['le']))
  const bounds = sorted.filter(({ labels }) => labels['le'] !== '+Inf')
  const plot = {
    x: MARGIN.left,
    y: MARGIN.top,
    width: box.width - MARGIN.left - MARGIN.right,
    height: box.height - MARGIN.top - MARGIN.bottom - 6,
  }
  const high = plot.height / Math.max(1, bounds.length)
  const wide = plot.width / (span.toSeconds - span.fromSeconds)
  const most = Math.max(...(sorted.at(-1)?.points ?? []).map(([, value]) => value || 0), 1)
  const below = new Map<number, number>()
  const cells = bounds.flatMap(({ labels, points }, index) => {
    const y = plot.y + plot.height - (index + 1) * high
    const label =
      index % 3 === 0
        ? text(
            plot.x - 4,
            y + high / 2 + 3,
            formatted(Number(labels['le']), 's'),
            'text-anchor="end" fill="#70707a" font-size="9"',
          )
        : ''
    const own = points.map(([at, value]) => {
      const count = Math.max(0, value - (below.get(at) ?? 0))
      below.set(at, value)
      if (count < most * 0.004 || Number.isNaN(count)) return ''
      const x = plot.x + (at - span.fromSeconds) * wide
      const opacity = Math.min(1, 0.12 + Math.sqrt(count / most)).toFixed(2)
      return `<rect x="${x.toFixed(0)}" y="${y.toFixed(0)}" width="${Math.max(1, wide - 1).toFixed(0)}" height="${(high - 1).toFixed(0)}" opacity="${opacity}"/>`
    })
    return [label, `<g fill="#3871dc">${own.join('')}</g>`]
  })
  return cells.join('') + marks(plot, span)
}

function niceCeiling(value: number): number {
  const unit = 10 ** Math.floor(Math.log10(value))
  return ([1, 2, 2.5, 5, 10].find(step => step * unit >= value * 1.02) ?? 10) * unit
}

function clip(name: string, characters: number): string {
  return name.length <= characters ? name : `${name.slice(0, Math.max(1, Math.floor(characters) - 1))}…`
}

export function text(x: number, y: number, content: string, attributes: string): string {
  return `<text x="${Math.round(x)}" y="${Math.round(y)}" ${attributes}>${content}</text>`
}

export function xmlOf(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
