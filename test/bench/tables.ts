import type { GoalResult } from './goals.ts'
import { medianOf, type Samples } from './measure.ts'

/** A Markdown table that is also readable in a terminal. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(title.length, 1, ...rows.map(row => (row[column] ?? '').length)),
  )
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join(' | ')} |`
  const rule = `| ${widths.map((width, column) => (column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`)).join(' | ')} |`
  return [line(head), rule, ...rows.map(line)].join('\n')
}

export function samplesTable(samples: Samples): string {
  const rows = [...samples.keys()].map(name => [
    name,
    medianOf(samples, name, 'cpuUs').toFixed(1),
    medianOf(samples, name, 'perSecond').toFixed(0),
    (medianOf(samples, name, 'p50Us') / 1000).toFixed(2),
    (medianOf(samples, name, 'p99Us') / 1000).toFixed(2),
  ])
  return table(['', 'µs of processor', 'requests/s', 'p50 ms', 'p99 ms'], rows)
}

export function goalsTable(goals: readonly GoalResult[]): string {
  const rows = goals.map(({ name, to, ratio, atMost, mark }) => [
    `${name} : ${to}`,
    ratio.toFixed(2),
    atMost.toFixed(2),
    mark,
  ])
  return table(['processor time, as a ratio', 'measured', 'goal', ''], rows)
}
