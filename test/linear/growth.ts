/** Powers of two and, before them, lengths at which an exponential cost shows and can still be paid. */
const LENGTHS = [12, 18, 24, 512, 4096, 16_384]
/** A linear pass over the longest of them takes less, most of them a tenth. */
const SUSPICIOUS_MS = 1
const RUNS = 5
const FACTOR = 16
/** Of so many times the length: 16 where the cost is linear, 256 where it is quadratic. */
const MAX_RATIO = 100

/** A judgement must be the same so many times: what disturbs one run of the machine does not disturb all. */
const JUDGEMENTS = 4

export interface Growth {
  readonly length: number
  readonly ms: number
  /** How much less a sixteenth of the length takes. */
  readonly ratio: number
}

/**
 * Times ever longer inputs, up to where it is plain that the cost is linear or that it is not. Only the quickest of several
 * runs counts: other work on the machine makes runs slower, never quicker.
 * @param text an input of about so many characters
 * @returns null where the cost grows as the length does
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

/** @returns null as soon as one judgement finds the cost linear */
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

/** @param enoughMs no further runs are needed after one that is quicker */
function quickest(read: (text: string) => unknown, text: string, enoughMs = 0): number {
  let best = Number.POSITIVE_INFINITY
  for (let run = 0; run < RUNS && best >= enoughMs; run++) {
    const startedAtMs = performance.now()
    read(text)
    best = Math.min(best, performance.now() - startedAtMs)
  }
  return best
}
