import { beyondFast } from '../support/beyond-fast.ts'

/**
 * Powers of two, and before them lengths at which exponential cost is visible and still affordable. The longest is most of
 * the time of this check, and shows what repeats more than a few characters in quadratic time.
 */
const LENGTHS = [12, 18, 24, 512, 4096, ...beyondFast(16_384)]
/** Above the time of a linear pass over the longest input, most of which take a tenth. */
const SUSPICIOUS_MS = 1
const RUNS = 5
/** Far beyond any linear pass: two runs tell as much as five, and repeating it is most of the time of these tests. */
const CLEARLY_SLOW_MS = 10
const RUNS_IF_SLOW = 2
const FACTOR = 16
/** Factor for the longest input: 16 for linear cost, 256 for quadratic. */
const MAX_RATIO = 100

/** Number of times a result must repeat, because disturbances of the machine do not affect all runs. */
const JUDGEMENTS = 4

export interface Growth {
  readonly length: number
  readonly ms: number
  /** Ratio of the times for a sixteenth of the length. */
  readonly ratio: number
}

/**
 * Measures increasingly long inputs until the cost is clearly linear or clearly not. Only the fastest of several runs
 * counts: other load makes runs slower, never faster.
 * @param text an input of about the given number of characters
 * @returns null if the cost grows linearly
 */
export function growthBeyondLinear(
  read: (text: string) => unknown,
  text: (length: number) => string,
): Growth | null {
  for (const length of LENGTHS) {
    const whole = text(length)
    if (quickest(read, whole, SUSPICIOUS_MS) >= SUSPICIOUS_MS) {
      const growth = confirmed(read, whole, text(length / FACTOR))
      if (growth !== null) return { length, ...growth }
    }
  }
  return null
}

/** @returns null as soon as one measurement finds linear cost */
function confirmed(
  read: (text: string) => unknown,
  whole: string,
  part: string,
): Omit<Growth, 'length'> | null {
  let growth = { ms: 0, ratio: 0 }
  for (let judgement = 0; judgement < JUDGEMENTS; judgement++) {
    const ms = quickest(read, whole)
    growth = { ms, ratio: ms / quickest(read, part) }
    if (ms < SUSPICIOUS_MS || growth.ratio < MAX_RATIO) return null
  }
  return growth
}

/** @param enoughMs no further runs are needed after a faster one */
function quickest(read: (text: string) => unknown, text: string, enoughMs = 0): number {
  let best = Number.POSITIVE_INFINITY
  for (let run = 0; run < RUNS && best >= enoughMs; run++) {
    if (run === RUNS_IF_SLOW && best > CLEARLY_SLOW_MS) break
    const startedAtMs = performance.now()
    read(text)
    best = Math.min(best, performance.now() - startedAtMs)
  }
  return best
}
