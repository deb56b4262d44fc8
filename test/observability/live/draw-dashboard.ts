import type { Series } from '../../support/prometheus-server.ts'
import type { Dashboard } from '../dashboards.ts'
import { drawPanel, type Span, text, xmlOf } from './draw.ts'

const WIDTH = 1200
const GAP = 6
const HEADER = 62
const ROW_TITLE = 28
const STAT = 84
const GRAPH = 190

/** A dashboard as one picture, drawn from the results of a real Prometheus. */
export function drawDashboard(
  dashboard: Dashboard,
  values: (row: number, panel: number) => readonly Series[][],
  run: Omit<Span, 'marks'> & { readonly phases: readonly (readonly [string, number])[] },
): string {
  const span = {
    fromSeconds: run.fromSeconds,
    toSeconds: run.toSeconds,
    marks: run.phases.map(([, at]) => at),
  }
  let y = HEADER
  const parts: string[] = []
  for (const [rowIndex, row] of dashboard.rows.entries()) {
    parts.push(text(GAP, y + 19, xmlOf(row.title), 'font-size="13" font-weight="600"'))
    y += ROW_TITLE
    const height = row.panels.every(({ kind }) => kind === 'stat') ? STAT : GRAPH
    let column = 0
    for (const [panelIndex, panel] of row.panels.entries()) {
      if (column + panel.width > 24) {
        column = 0
        y += height + GAP
      }
      const box = {
        x: GAP + (column / 24) * (WIDTH - GAP),
        y,
        width: (panel.width / 24) * (WIDTH - GAP) - GAP,
        height,
      }
      parts.push(drawPanel(panel, values(rowIndex, panelIndex), box, span))
      column += panel.width
    }
    y += height + GAP
  }
  const open = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y}" width="${WIDTH}" height="${y}" font-family="Inter, Helvetica, Arial, sans-serif" font-size="10" fill="#24242a">`
  return `${open}<rect width="${WIDTH}" height="${y}" fill="#f4f5f7"/>\n${headOf(dashboard, run)}${parts.join('')}</svg>\n`
}

function headOf(dashboard: Dashboard, run: Parameters<typeof drawDashboard>[2]): string {
  const seconds = Math.round(run.toSeconds - run.fromSeconds)
  const title = text(GAP, 22, xmlOf(dashboard.title), 'font-size="17" font-weight="600"')
  const note = `Drawn from a run of ${seconds} s under load, with windows of minutes and days shortened to seconds`
  const phases = run.phases.map(([what], index) => `${index + 1} ${what}`)
  const half = Math.ceil(phases.length / 2)
  const lines = [phases.slice(0, half), phases.slice(half)].map((line, index) =>
    text(GAP, 39 + 15 * index, xmlOf(line.join('  ·  ')), 'fill="#4a4a52"'),
  )
  return title + text(WIDTH - GAP, 22, note, 'fill="#70707a" text-anchor="end"') + lines.join('')
}
