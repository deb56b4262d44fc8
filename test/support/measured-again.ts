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
