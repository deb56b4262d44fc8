import { median, quantile } from './statistics.ts'

/** A ratio this much above the written one is worse, and one this much below it is better. */
export const TOLERANCE = 0.08

/** Of all processors, what other processes and the hypervisor may take during a round that counts. */
const QUIET_SHARE = 0.05
/** A bare server that takes this much longer or shorter than written runs on another machine, or on one that is throttled. */
const SAME_MACHINE = 0.15
const FEWEST_ROUNDS = 6
const FEWEST_SHARE = 2 / 3
/** Twice this must fit into the tolerance, so that chance alone seldom passes or fails. */
const MOST_ERROR = TOLERANCE / 2

/** What one round says of one ratio, and of the machine meanwhile. */
export interface Round {
  readonly ratio: number
  /** Processor time of a request to the bare Node server: no change of the gateway moves it. */
  readonly floorUs: number
  /** Of all processors, 0 to 1. */
  readonly othersShare: number
}

/** Figures of a quiet run. */
export interface Written {
  readonly median: number
  /** Left out where that run did not record it. */
  readonly floorUs?: number
}

export interface Judgement {
  readonly verdict: 'unchanged' | 'better' | 'worse' | 'not measured'
  /** Median of the rounds that count; NaN if there is none. */
  readonly measured: number
  /** Why nothing was measured, else empty. */
  readonly reason: string
}

/**
 * Compares with the written ratio, or says that this machine cannot tell a difference of the tolerance at this time. The
 * bound never depends on the noise.
 */
export function judge(written: Written, rounds: readonly Round[]): Judgement {
  const quiet = rounds.filter(round => !isDisturbed(round))
  const ratios = quiet.map(({ ratio }) => ratio)
  const measured = median(ratios)
  const reason = noiseOf(quiet, rounds.length) ?? otherMachine(written, quiet) ?? ''
  if (reason !== '') return { verdict: 'not measured', measured, reason }
  if (measured > written.median * (1 + TOLERANCE)) return { verdict: 'worse', measured, reason }
  if (measured < written.median * (1 - TOLERANCE)) return { verdict: 'better', measured, reason }
  return { verdict: 'unchanged', measured, reason }
}

/** @returns whether so many rounds of a series were disturbed that the others are too few */
export function cannotTell(rounds: readonly Pick<Round, 'othersShare'>[], planned: number): boolean {
  return rounds.filter(isDisturbed).length > planned - FEWEST_ROUNDS
}

export function isDisturbed({ othersShare }: Pick<Round, 'othersShare'>): boolean {
  return othersShare > QUIET_SHARE
}

/** @returns what keeps these rounds from telling a difference of the tolerance, or null */
function noiseOf(quiet: readonly Round[], all: number): string | null {
  if (quiet.length < FEWEST_ROUNDS || quiet.length < all * FEWEST_SHARE)
    return `other processes took over ${percent(QUIET_SHARE)} of the machine in ${all - quiet.length} of ${all} rounds`
  const error = errorOfMedian(quiet.map(({ ratio }) => ratio))
  if (error > MOST_ERROR)
    return `the rounds scatter so much that their median is known within ${percent(error)} only`
  const floor = spreadOf(quiet.map(({ floorUs }) => floorUs))
  return floor > SAME_MACHINE ? `the bare server’s own time differs by ${percent(floor)}` : null
}

function otherMachine({ floorUs }: Written, quiet: readonly Round[]): string | null {
  const now = median(quiet.map(round => round.floorUs))
  if (floorUs === undefined || Math.abs(now / floorUs - 1) <= SAME_MACHINE) return null
  return `the bare server takes ${now.toFixed(1)} µs, and ${floorUs.toFixed(1)} µs where the ratios were written`
}

/** Standard error of a median, as a share of it, by the middle half of a normal distribution: 1.253 / 1.349 = 0.93. */
export function errorOfMedian(values: readonly number[]): number {
  return (0.93 * spreadOf(values)) / Math.sqrt(values.length)
}

/** Width of the middle half, as a share of the median. */
export function spreadOf(values: readonly number[]): number {
  return (quantile(values, 0.75) - quantile(values, 0.25)) / median(values)
}

/** A ratio in several series of rounds, each with new processes. */
export interface Series {
  readonly median: number
  readonly low: number
  readonly high: number
}

/** @returns what to write down, or why this cannot be written: more rounds than one series has say it more exactly */
export function summarize(series: readonly (readonly Round[])[]): Series | string {
  const all = series.flat()
  const quiet = all.filter(round => !isDisturbed(round))
  const noise = noiseOf(quiet, all.length)
  if (noise !== null) return noise
  const medians = series.map(rounds =>
    median(rounds.filter(round => !isDisturbed(round)).map(({ ratio }) => ratio)),
  )
  const [low, middle, high] = [Math.min(...medians), median(medians), Math.max(...medians)]
  if (high > middle * (1 + TOLERANCE) || low < middle * (1 - TOLERANCE))
    return `series of new processes gave ${medians.map(value => value.toFixed(2)).join(', ')}`
  return { median: middle, low, high }
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`
}
