import { writeFileSync } from 'node:fs'
import { drawCurve } from './curve.ts'
import type { Invalidations } from './invalidations.ts'
import { writePerformance } from './pages.ts'
import { machine } from './results.ts'
import { table } from './tables.ts'

const RESULTS = new URL('scale.json', import.meta.url)
const PICTURE = new URL('scale.svg', import.meta.url)

/** Figures at the maximum request rate: medians of the rounds. */
export interface Loaded {
  readonly cpuUs: number
  readonly perSecond: number
  readonly p99Ms: number
  /** The longest block of the event loop in a round. */
  readonly longestPauseMs: number
  readonly longestPauseOfAllMs: number
  /** The longest pause for garbage collection in a round. */
  readonly longestCollectionMs: number
}

/** A gateway with this number of keys in use. */
export interface Size extends Loaded {
  readonly keys: number
  readonly ratioToFirst: number
  readonly longestPauseFillingMs: number
  /** Growth of the whole process divided by the number of records. */
  readonly residentBytesPerKey: number
}

export interface ScaleReport {
  readonly rounds: number
  readonly seconds: number
  readonly sizes: readonly Size[]
  readonly bareNode: Loaded
  readonly invalidations: Invalidations
}

/** With fewer keys, other memory of the process hides that of the records. */
const MIN_KEYS_FOR_BYTES = 100_000
/** 50,000 are published per second; the start and end of a turn lose a few. */
const MIN_APPLIED = 49_500

export function scaleTables(report: ScaleReport): string {
  return [sizesTable(report), invalidationsTable(report.invalidations), goalsTable(report)].join('\n\n')
}

/** Writes JSON, picture, and section of docs/performance.md. */
export function writeScale(report: ScaleReport): void {
  const goals = Object.fromEntries(evaluateScale(report).map(({ name, ...goal }) => [name, goal]))
  const sizes = Object.fromEntries(report.sizes.map(size => [size.keys, size]))
  const json = { date: new Date().toISOString(), machine: machine(), ...report, sizes, goals }
  writeFileSync(RESULTS, `${JSON.stringify(json, null, 2)}\n`)
  const points = report.sizes.map(({ keys, cpuUs }) => ({ at: keys, value: cpuUs }))
  writeFileSync(PICTURE, drawCurve('Processor time of a request by keys in use, in microseconds', points))
  writePerformance('bench-scale', describe(report))
}

interface ScaleGoal {
  readonly name: string
  readonly measured: number
  readonly goal: string
  readonly met: boolean
}

export function evaluateScale({ sizes, invalidations }: ScaleReport): ScaleGoal[] {
  const atMost = (name: string, measured: number, limit: number): ScaleGoal => ({
    name,
    measured,
    goal: `at most ${limit}`,
    met: measured <= limit,
  })
  const { with: busy } = invalidations
  return [
    atMost('growth of processor time', Math.max(...sizes.map(size => size.ratioToFirst)), 1.25),
    atMost('bytes of a record', sizes.at(-1)?.residentBytesPerKey ?? Number.NaN, 500),
    atMost('longest pause under load, ms', Math.max(...sizes.map(size => size.longestPauseMs)), 20),
    atMost('longest pause while filling, ms', sizes.at(-1)?.longestPauseFillingMs ?? Number.NaN, 50),
    {
      name: 'invalidations applied each second',
      measured: busy.invalidationsPerSecond,
      goal: `at least ${MIN_APPLIED}`,
      met: busy.invalidationsPerSecond >= MIN_APPLIED,
    },
    atMost('longest pause with invalidations, ms', busy.longestPauseMs, 20),
  ]
}

function sizesTable({ sizes, bareNode }: ScaleReport): string {
  const rows = sizes.map(size => [
    size.keys.toLocaleString('en'),
    ...loadedCells(size, size.ratioToFirst.toFixed(2)),
    size.longestPauseFillingMs.toFixed(1),
    size.keys < MIN_KEYS_FOR_BYTES ? '' : size.residentBytesPerKey.toFixed(0),
  ])
  const head = [
    'keys in use',
    'µs of processor',
    'ratio to first',
    'requests/s',
    'p99 ms',
    'longest pause ms',
    'in all rounds',
    'for collections',
    'while filling',
    'bytes per record',
  ]
  return table(head, [...rows, ['bare Node 401', ...loadedCells(bareNode, ''), '', '']])
}

function loadedCells(loaded: Loaded, ratio: string): string[] {
  return [
    loaded.cpuUs.toFixed(1),
    ratio,
    loaded.perSecond.toFixed(0),
    loaded.p99Ms.toFixed(2),
    loaded.longestPauseMs.toFixed(1),
    loaded.longestPauseOfAllMs.toFixed(1),
    loaded.longestCollectionMs.toFixed(1),
  ]
}

function invalidationsTable({ requestsPerSecond, without, with: busy }: Invalidations): string {
  const rows = [without, busy].map(turn => [
    turn.invalidationsPerSecond.toFixed(0),
    turn.cpuUs.toFixed(1),
    turn.p50Ms.toFixed(2),
    turn.p99Ms.toFixed(2),
    turn.p99DelayMs.toFixed(2),
    turn.longestPauseMs.toFixed(1),
  ])
  const head = [
    'invalidations/s',
    'µs of processor',
    'p50 ms',
    'p99 ms',
    'p99 of the loop, ms',
    'longest pause ms',
  ]
  const eachUs = ((busy.cpuUs - without.cpuUs) * requestsPerSecond) / busy.invalidationsPerSecond
  return [
    `With the most keys, at half the maximum request rate (${requestsPerSecond.toFixed(0)} per second), without and with changes`,
    `of keys, which cost ${eachUs.toFixed(1)} µs each. Load, Redis, its publisher and the console, to which each change is confirmed, share one`,
    'core there. The delay of the event loop is the time that requests wait in the gateway itself.',
    '',
    table(head, rows),
  ].join('\n')
}

function goalsTable(report: ScaleReport): string {
  const rows = evaluateScale(report).map(({ name, measured, goal, met }) => [
    name,
    measured >= 1000 ? measured.toFixed(0) : measured.toFixed(2),
    goal,
    met ? 'met' : 'not met',
  ])
  return table(['', 'measured', 'goal', ''], rows)
}

function describe(report: ScaleReport): string {
  return [
    `\`npm run bench -- --scale\`, ${new Date().toISOString().slice(0, 10)}, ${machine()}: ${report.rounds} rounds of`,
    `${report.seconds} s in turns, 64 connections that request \`/api/v1/auth\` with all keys in random order. Pauses are blocks of the event loop, the`,
    'longest of each round; a bare Node server in the same rounds shows those that Node and the machine cause.',
    '',
    '![Processor time of a request, by keys in use](../test/bench/scale.svg)',
    '',
    scaleTables(report),
  ].join('\n')
}
