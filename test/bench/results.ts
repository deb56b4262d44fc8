import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus, release } from 'node:os'
import { drawBars } from './bars.ts'
import { medianOf, type Sample, type Samples } from './measure.ts'
import type { SideFigures } from './side-figures.ts'

const RESULTS = new URL('results.json', import.meta.url)
const RATIOS = new URL('ratios.json', import.meta.url)
const PICTURE = new URL('results.svg', import.meta.url)

/** When and on what something was measured. */
interface Run {
  readonly date: string
  readonly commit: string
  readonly machine: string
}

export interface Requests extends Run {
  readonly rounds: number
  readonly seconds: number
  readonly samples: Readonly<Record<string, readonly Sample[]>>
  readonly side: SideFigures
}

/** Of a gateway without load. */
export interface Start {
  readonly readyAfterMs: number
  readonly idleMegabytes: number
}

export interface Starts extends Run {
  readonly rounds: number
  /** Medians by form of the gateway. */
  readonly forms: Readonly<Record<string, Start>>
}

/** This commit and another, in one run. */
export interface Against extends Run {
  readonly other: string
  readonly rounds: number
  readonly seconds: number
  readonly samples: Requests['samples']
  readonly p99AddedAtHalfMs: Readonly<Record<'today' | 'other' | 'leastProxy', number>>
  /** From sources. */
  readonly starts: Readonly<Record<'today' | 'other', Start>>
}

/** Figures alone: what they mean for the goals is computed when pages are written. */
export interface Results {
  readonly requests: Requests
  readonly starts: Starts
  readonly against: Against
}

export function readResults(): Results {
  // Written by the functions below.
  return JSON.parse(readFileSync(RESULTS, 'utf8')) as Results
}

/** Samples as they were measured. */
export function samplesOf(stored: Requests['samples']): Samples {
  return new Map(Object.entries(stored).map(([name, all]) => [name, [...all]]))
}

export function saveRequests(samples: Samples, run: Omit<Requests, keyof Run | 'samples'>): void {
  save({ requests: { ...thisRun(), ...run, samples: Object.fromEntries(samples) } })
  writeFileSync(PICTURE, pictureOf(samples))
}

export function saveStarts(starts: Omit<Starts, keyof Run>): void {
  save({ starts: { ...thisRun(), ...starts } })
}

export function saveAgainst(samples: Samples, run: Omit<Against, keyof Run | 'samples'>): void {
  save({ against: { ...thisRun(), ...run, samples: Object.fromEntries(samples) } })
}

/** What the short bench compares with: figures of a quiet machine. */
export interface WrittenRatios {
  /** How they were measured. */
  readonly measured: string
  /** Processor time of a request to the reference, in that run. */
  readonly referenceUs?: number
  readonly ratios: Readonly<
    Record<string, { readonly median: number; readonly spread?: readonly [low: number, high: number] }>
  >
}

export function readRatios(): WrittenRatios {
  // Written by the function below.
  return JSON.parse(readFileSync(RATIOS, 'utf8')) as WrittenRatios
}

export function saveRatios(written: WrittenRatios): void {
  writeFileSync(RATIOS, `${JSON.stringify(written, null, 2)}\n`)
}

function save(part: Partial<Results>): void {
  writeFileSync(RESULTS, `${JSON.stringify({ ...readResults(), ...part }, null, 2)}\n`)
}

function thisRun(): Run {
  return { date: new Date().toISOString(), commit: commit(), machine: machine() }
}

function pictureOf(samples: Samples): string {
  const bars = [...samples.keys()]
    .filter(name => !name.startsWith('upstream alone'))
    .map(name => ({ name, value: medianOf(samples, name, 'cpuUs') }))
  return drawBars('Processor time of a request, in microseconds', bars)
}

/** Of a checkout, changes aside. */
export function commit(checkout = import.meta.dirname): string {
  return execFileSync('git', ['rev-parse', '--short=8', 'HEAD'], { cwd: checkout, encoding: 'utf8' }).trim()
}

export function machine(): string {
  const [first, ...others] = cpus()
  return `${others.length + 1} × ${first?.model ?? 'unknown processor'}, Linux ${release()}, Node ${process.versions.node}`
}
