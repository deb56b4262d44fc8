import { StarvationMeter } from './starvation-meter.ts'

/** Of one thing on a machine that starves programs: then the test fails, and says so. */
export const MEASUREMENTS = 5

export interface Measurement<Result> {
  readonly result: Result
  /** How long the machine kept processes from running, if it therefore proves nothing; null if it proves something. */
  readonly starvedMs: number | null
}

/**
 * Repeats a measurement that a starved machine made worthless. The bound itself is never loosened.
 * @throws if the machine starved every measurement
 */
export async function untilProven<Result>(
  what: string,
  measure: () => Promise<Measurement<Result>>,
): Promise<Result> {
  const starved: number[] = []
  while (starved.length < MEASUREMENTS) {
    const { result, starvedMs } = await measure()
    if (starvedMs === null) return result
    starved.push(Math.round(starvedMs))
    process.stdout.write(`${what}: starved for ${Math.round(starvedMs)} ms, measured again\n`)
  }
  throw new Error(
    `${what}: not measured; in ${MEASUREMENTS} measurements the machine starved processes for ${starved.join(', ')} ms`,
  )
}

export interface Measure<Result> {
  readonly what: string
  /** Every process that the measured events pass. */
  readonly pids: () => readonly number[]
  /** Each time anew, with other keys. */
  readonly measure: () => Promise<Result>
  /** By how much the result misses what it should be; 0 or less if it does not. */
  readonly missedByMs: (result: Result) => number
}

/**
 * Measures once, and again if the result misses its bound by no longer than the machine starved processes meanwhile.
 * @returns the last result, for the caller to hold to the exact bound
 */
export function measured<Result>({ what, pids, measure, missedByMs }: Measure<Result>): Promise<Result> {
  return untilProven(what, async () => {
    const starvation = new StarvationMeter(pids())
    const beganAtMs = Date.now()
    try {
      const result = await measure()
      const missed = missedByMs(result)
      const starvedMs = starvation.waitedInAllMs(beganAtMs, Date.now())
      return { result, starvedMs: missed > 0 && starvedMs >= missed ? starvedMs : null }
    } finally {
      starvation.stop()
    }
  })
}

/** One request, and for how much of its time the machine kept a process that it passes from running. */
export interface Timed {
  readonly tookMs: number
  readonly starvedMs: number
}

export interface FewSlow<Result> {
  readonly what: string
  /** Each time anew, with other keys. */
  readonly measure: () => Promise<Result>
  /** In each of these groups, at most so many may be slow. */
  readonly groups: (result: Result) => readonly (readonly Timed[])[]
  readonly slowMs: number
  readonly atMost: number
}

/**
 * Sends requests once, and again if more of them were slow than may be, and would not have been without starved processes.
 * @returns the last result, for the caller to hold to the exact number
 */
export function fewSlow<Result>({ what, measure, groups, slowMs, atMost }: FewSlow<Result>): Promise<Result> {
  return untilProven(what, async () => {
    const result = await measure()
    return { result, starvedMs: starvedOfSlow(groups(result), slowMs, atMost) }
  })
}

/** @returns how long starved processes delayed requests of a group with too many slow ones, if they explain it; else null */
export function starvedOfSlow(
  groups: readonly (readonly Timed[])[],
  slowMs: number,
  atMost: number,
): number | null {
  const isMissed = (group: readonly Timed[]) => slowOf(group, slowMs).length > atMost
  const missed = groups.filter(isMissed)
  const isExplained = missed.length > 0 && !missed.map(withoutStarvation).some(isMissed)
  return isExplained ? Math.max(0, ...missed.flat().map(timed => timed.starvedMs)) : null
}

export function slowOf<Request extends Timed>(requests: readonly Request[], slowMs: number): Request[] {
  return requests.filter(({ tookMs }) => tookMs >= slowMs)
}

function withoutStarvation(requests: readonly Timed[]): readonly Timed[] {
  return requests.map(({ tookMs, starvedMs }) => ({ tookMs: tookMs - starvedMs, starvedMs }))
}

/** The compiler works on code that runs for the first time, and a host that has other guests counts their time as ours. */
const ATTEMPTS = 3

/**
 * Measures until a result is good, at most so many times.
 * @returns the good result as the last one, or none that is
 */
export async function untilGood<Result>(
  measure: () => Promise<Result>,
  isGood: (result: Result) => boolean,
  attempts = ATTEMPTS,
): Promise<readonly Result[]> {
  const results: Result[] = []
  while (!results.some(isGood) && results.length < attempts) results.push(await measure())
  return results
}
