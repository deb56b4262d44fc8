import { readFileSync, writeFileSync } from 'node:fs'
import type { Contestant } from './contestants.ts'
import { ratiosOf, runRounds, type Samples } from './measure.ts'
import { quantile } from './statistics.ts'
import { table } from './tables.ts'

const RECORDED = new URL('ratios.json', import.meta.url)
const WORSE = 1.15
/** Odd rounds are the machine's doing more often than ours, and always make it worse: the better quarter tells of us. */
const SHARE = 0.25
const PACE = { rounds: 7, seconds: 1, warmUpSeconds: 5, leadInSeconds: 1, connections: 64 }

const PAIRS = [
  ['gateway, 0.4 KB', 'http-proxy-3, 0.4 KB'],
  ['gateway, forged key', 'bare Node 401'],
  ['gateway, auth endpoint', 'bare Node 401'],
] as const

/** Contestants without whom it says nothing. */
export const SHORT_NAMES: ReadonlySet<string> = new Set(PAIRS.flat())

interface Ratio {
  readonly pair: string
  readonly better: number
  readonly best: number
  readonly recorded: number | undefined
}

/**
 * Compares with the ratios that are written down. Where the quarter is worse though some round was not, the spread says
 * that the machine may be to blame: then everything is measured once more, and all rounds count.
 * @returns whether no ratio has become worse
 */
export async function compareWithRecorded(
  contestants: readonly Contestant[],
  say: (text: string) => void,
): Promise<boolean> {
  const recorded = readRecorded()
  let samples = await runRounds(contestants, PACE, () => {})
  let ratios = ratiosNow(samples, recorded)
  const doubtful = ratios.some(ratio => isWorse(ratio.better, ratio) && !isWorse(ratio.best, ratio))
  if (doubtful) {
    say('The rounds contradict each other: once more')
    samples = joined(samples, await runRounds(contestants, PACE, () => {}))
    ratios = ratiosNow(samples, recorded)
  }
  say(describe(ratios))
  return ratios.every(ratio => !isWorse(ratio.better, ratio))
}

/** @returns what was written down */
export async function record(contestants: readonly Contestant[]): Promise<string> {
  const ratios = ratiosNow(await runRounds(contestants, PACE, () => {}), {})
  const named = Object.fromEntries(ratios.map(({ pair, better }) => [pair, Math.round(better * 100) / 100]))
  writeFileSync(RECORDED, `${JSON.stringify(named, null, 2)}\n`)
  return describe(ratios)
}

function ratiosNow(samples: Samples, recorded: Readonly<Record<string, number>>): Ratio[] {
  return PAIRS.map(([name, to]) => {
    const pair = `${name} : ${to}`
    const ratios = ratiosOf(samples, name, to)
    return { pair, better: quantile(ratios, SHARE), best: Math.min(...ratios), recorded: recorded[pair] }
  })
}

function isWorse(ratio: number, { recorded }: Ratio): boolean {
  return recorded !== undefined && ratio > recorded * WORSE
}

function joined(first: Samples, second: Samples): Samples {
  return new Map([...first].map(([name, samples]) => [name, [...samples, ...(second.get(name) ?? [])]]))
}

function readRecorded(): Record<string, number> {
  // Written by `record`.
  return JSON.parse(readFileSync(RECORDED, 'utf8')) as Record<string, number>
}

function describe(ratios: readonly Ratio[]): string {
  const rows = ratios.map(ratio => [
    ratio.pair,
    ratio.better.toFixed(2),
    ratio.recorded?.toFixed(2) ?? '',
    isWorse(ratio.better, ratio) ? 'worse' : 'as it was',
  ])
  return table(['processor time, as a ratio', 'measured', 'written down', ''], rows)
}
