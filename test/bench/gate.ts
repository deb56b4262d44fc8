import { median, quantile } from './statistics.ts'

/** A ratio this much above the written one is worse, and one this much below it is better. */
export const TOLERANCE = 0.08

/** Of all processors, what other processes and the hypervisor may take during a round that counts. */
const QUIET_SHARE = 0.05
/** A reference that takes this much longer or shorter than written runs on another machine, or on one that is throttled. */
const SAME_MACHINE = 0.15
const FEWEST_SHARE = 2 / 3
/** New processes of one build differ by more than their rounds do: by up to 10 % where most of the time is the server's own. */
const FEWEST_SERIES = 4
/** Twice this must fit into the tolerance, so that chance alone seldom passes or fails. */
const MOST_ERROR = TOLERANCE / 2

/** What one round says of one ratio, and of the machine meanwhile. */
export interface Round {
  readonly ratio: number
  /** Processor time of a request to the reference, another server: no change of the gateway moves it. */
  readonly referenceUs: number
  /** Of all processors, 0 to 1. */
  readonly othersShare: number
}

/** Rounds with the same processes. */
export type Series = readonly Round[]

/** Figures of a quiet run. */
export interface Written {
  readonly median: number
  /** Left out where that run did not record it. */
  readonly referenceUs?: number
}

export interface Judgement {
  readonly verdict: 'unchanged' | 'better' | 'worse' | 'not measured'
  /** Median of the series that count; NaN if there is none. */
  readonly measured: number
  /** Why nothing was measured, else empty. */
  readonly reason: string
}

/**
 * Compares with the written ratio, or says that this machine cannot tell a difference of the tolerance at this time. The
 * bound never depends on the noise.
 */
export function judge(written: Written, series: readonly Series[]): Judgement {
  const measured = median(mediansOf(series))
  const reason = otherMachine(written, series) ?? noiseOf(series) ?? ''
  if (reason !== '') return { verdict: 'not measured', measured, reason }
  if (measured > written.median * (1 + TOLERANCE)) return { verdict: 'worse', measured, reason }
  if (measured < written.median * (1 - TOLERANCE)) return { verdict: 'better', measured, reason }
  return { verdict: 'unchanged', measured, reason }
}

/**
 * @param referenceUs the written time of the reference, if a written ratio is compared
 * @returns whether nothing will be measured even with the best of planned rounds to come: too many were disturbed, or the
 * median of the reference's time is that of another machine
 */
export function cannotTell(
  rounds: readonly Omit<Round, 'ratio'>[],
  planned: number,
  referenceUs?: number,
): boolean {
  if (rounds.filter(isDisturbed).length > planned * (1 - FEWEST_SHARE)) return true
  if (referenceUs === undefined) return false
  const changes = rounds
    .filter(round => !isDisturbed(round))
    .map(round => round.referenceUs / referenceUs - 1)
  const slower = changes.filter(change => change > SAME_MACHINE).length
  const faster = changes.filter(change => change < -SAME_MACHINE).length
  return Math.max(slower, faster) > planned / 2
}

export function isDisturbed({ othersShare }: Pick<Round, 'othersShare'>): boolean {
  return othersShare > QUIET_SHARE
}

function quietOf(series: readonly Series[]): Series[] {
  return series.map(rounds => rounds.filter(round => !isDisturbed(round))).filter(rounds => rounds.length > 0)
}

function mediansOf(series: readonly Series[]): number[] {
  return quietOf(series).map(rounds => median(rounds.map(({ ratio }) => ratio)))
}

/** @returns what keeps these rounds from telling a difference of the tolerance, or null */
function noiseOf(series: readonly Series[]): string | null {
  const [all, quiet] = [series.flat(), quietOf(series)]
  const disturbed = all.filter(isDisturbed).length
  if (quiet.length < FEWEST_SERIES || disturbed > all.length * (1 - FEWEST_SHARE))
    return `other processes took over ${percent(QUIET_SHARE)} of the machine in ${disturbed} of ${all.length} rounds`
  const error = errorOfMedian(mediansOf(series))
  if (error > MOST_ERROR)
    return `new processes differ so much that their median is known within ${percent(error)} only`
  const reference = spreadOf(quiet.flat().map(({ referenceUs }) => referenceUs))
  return reference > SAME_MACHINE ? `the reference’s own time differs by ${percent(reference)}` : null
}

function otherMachine({ referenceUs }: Written, series: readonly Series[]): string | null {
  const now = median(
    quietOf(series)
      .flat()
      .map(round => round.referenceUs),
  )
  if (referenceUs === undefined || !(Math.abs(now / referenceUs - 1) > SAME_MACHINE)) return null // NaN: none was quiet.
  return `the reference takes ${now.toFixed(1)} µs, and ${referenceUs.toFixed(1)} µs where the ratios were written`
}

/** Standard error of a median, as a share of it, by the middle half of a normal distribution: 1.253 / 1.349 = 0.93. */
export function errorOfMedian(values: readonly number[]): number {
  return (0.93 * spreadOf(values)) / Math.sqrt(values.length)
}

/** Width of the middle half, as a share of the median. */
export function spreadOf(values: readonly number[]): number {
  return (quantile(values, 0.75) - quantile(values, 0.25)) / median(values)
}

/** A ratio over several series. */
export interface Summary {
  readonly median: number
  /** Lowest and highest series. */
  readonly low: number
  readonly high: number
}

/** @returns what to write down, or why it cannot be known here */
export function summarize(series: readonly Series[]): Summary | string {
  const noise = noiseOf(series)
  if (noise !== null) return noise
  const medians = mediansOf(series)
  return { median: median(medians), low: Math.min(...medians), high: Math.max(...medians) }
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`
}
