import { readFileSync, writeFileSync } from 'node:fs'
import type { Contestant } from './contestants.ts'
import { ratiosOf, runRounds, type Samples } from './measure.ts'
import { median, quantile } from './statistics.ts'
import { table } from './tables.ts'

const RECORDED = new URL('ratios.json', import.meta.url)
const WORSE = 1.15
/** Disturbances mostly increase a ratio, so the first quartile describes the code better than the median. */
const SHARE = 0.25
const PACE = { rounds: 5, seconds: 1 }

const PAIRS = [
  ['gateway, 0.4 KB', 'http-proxy-3, 0.4 KB'],
  ['gateway, 0.4 KB', 'reply-from, 0.4 KB'],
  ['gateway, forged key', 'bare Node 401'],
  ['gateway, auth endpoint', 'bare Node 401'],
] as const

/** Contestants needed for these ratios. */
export const SHORT_NAMES: ReadonlySet<string> = new Set(PAIRS.flat())

interface Ratio {
  readonly pair: string
  readonly measured: number
  readonly recorded: number | undefined
}

/**
 * Compares with the recorded ratios.
 * @returns whether any is worse, and the table
 */
export async function compareWithRecorded(
  contestants: readonly Contestant[],
): Promise<{ worse: boolean; text: string }> {
  const samples = await runRounds(contestants, PACE, () => {})
  const ratios = ratiosNow(samples, readRecorded(), values => quantile(values, SHARE))
  return { worse: ratios.some(isWorse), text: describe(ratios) }
}

/** Records the median of the rounds. @returns the table */
export async function record(contestants: readonly Contestant[]): Promise<string> {
  const ratios = ratiosNow(await runRounds(contestants, PACE, () => {}), {}, median)
  const named = Object.fromEntries(
    ratios.map(({ pair, measured }) => [pair, Math.round(measured * 100) / 100]),
  )
  writeFileSync(RECORDED, `${JSON.stringify(named, null, 2)}\n`)
  return describe(ratios)
}

function ratiosNow(
  samples: Samples,
  recorded: Readonly<Record<string, number>>,
  ofRounds: (ratios: readonly number[]) => number,
): Ratio[] {
  return PAIRS.map(([name, to]) => {
    const pair = `${name} : ${to}`
    return { pair, measured: ofRounds(ratiosOf(samples, name, to)), recorded: recorded[pair] }
  })
}

function isWorse({ measured, recorded }: Ratio): boolean {
  return recorded !== undefined && measured > recorded * WORSE
}

function readRecorded(): Record<string, number> {
  // Written by `record`.
  return JSON.parse(readFileSync(RECORDED, 'utf8')) as Record<string, number>
}

function describe(ratios: readonly Ratio[]): string {
  const rows = ratios.map(ratio => [
    ratio.pair,
    ratio.measured.toFixed(2),
    ratio.recorded?.toFixed(2) ?? '',
    isWorse(ratio) ? 'worse' : 'unchanged',
  ])
  return table(['processor time, as a ratio', 'measured', 'recorded', ''], rows)
}
