import { readFileSync, writeFileSync } from 'node:fs'
import { cpus, release } from 'node:os'
import { drawBars } from './bars.ts'
import type { GoalResult } from './goals.ts'
import { medianOf, type Samples } from './measure.ts'
import type { SideFigures } from './side-figures.ts'
import { goalsTable, samplesTable, table } from './tables.ts'

const RESULTS = new URL('results.json', import.meta.url)
const PICTURE = new URL('results.svg', import.meta.url)
const PAGE = new URL('../../docs/performance.md', import.meta.url)

export interface Report {
  readonly samples: Samples
  readonly goals: readonly GoalResult[]
  readonly side: SideFigures
  readonly rounds: number
  readonly seconds: number
}

/** Writes the results of a full run: JSON, picture, and section of docs/performance.md. */
export function writeReport(report: Report): void {
  const text = describe(report)
  writeFileSync(RESULTS, `${JSON.stringify(toJson(report), null, 2)}\n`)
  writeFileSync(PICTURE, pictureOf(report.samples))
  writeSection('bench', text)
}

/** @param name of the markers in docs/performance.md that enclose the text */
export function writeSection(name: string, text: string): void {
  const page = readFileSync(PAGE, 'utf8')
  const [opening, closing] = [`<!-- ${name} -->`, `<!-- /${name} -->`]
  const begin = page.indexOf(opening)
  const end = page.indexOf(closing)
  if (begin < 0 || end < begin)
    throw new Error(`docs/performance.md must hold ${opening} and, after it, ${closing}`)
  writeFileSync(PAGE, `${page.slice(0, begin)}${opening}\n\n${text}\n\n${page.slice(end)}`)
}

export function sideTable(side: SideFigures): string {
  const rows = [
    ['p99 added at half its maximum rate', `${side.p99AddedAtHalfMs.gateway.toFixed(2)} ms`, '2 ms'],
    ['the same for node:http + undici without auth', `${side.p99AddedAtHalfMs.leastProxy.toFixed(2)} ms`, ''],
    [
      'p99 at its maximum rate',
      `${side.p99AtLimitMs.gateway.toFixed(1)} ms`,
      `${side.p99AtLimitMs.httpProxy.toFixed(1)} ms (bare http-proxy-3)`,
    ],
  ]
  return table(['the gateway', 'measured', 'goal: at most'], rows)
}

function describe(report: Report): string {
  const { samples, goals, side, rounds, seconds } = report
  return [
    `\`npm run bench\`, ${new Date().toISOString().slice(0, 10)}, ${machine()}: ${rounds} rounds of ${seconds} s in turns, 64`,
    'connections, access log, metrics and every check on. Times move with the machine; ratios within one run are the result.',
    '',
    '![Processor time of a request, by contestant](../test/bench/results.svg)',
    '',
    samplesTable(samples),
    '',
    goalsTable(goals),
    '',
    sideTable(side),
  ].join('\n')
}

function toJson({ samples, goals, side, rounds, seconds }: Report) {
  const date = new Date().toISOString()
  return { date, machine: machine(), rounds, seconds, samples: Object.fromEntries(samples), goals, side }
}

function pictureOf(samples: Samples): string {
  const bars = [...samples.keys()]
    .filter(name => !name.startsWith('upstream alone'))
    .map(name => ({ name, value: medianOf(samples, name, 'cpuUs') }))
  return drawBars('Processor time of a request, in microseconds', bars)
}

export function machine(): string {
  const [first, ...others] = cpus()
  return `${others.length + 1} × ${first?.model ?? 'unknown processor'}, Linux ${release()}, Node ${process.versions.node}`
}
