/** Timers as a value, so that tests control time. Each call returns its cancellation. */
export interface Timers {
  after(delayMs: number, run: () => void): () => void
  every(periodMs: number, run: () => void): () => void
}

/** These timers do not keep the process alive. */
export const systemTimers: Timers = {
  after(delayMs, run) {
    const timer = setTimeout(run, delayMs).unref()
    return () => clearTimeout(timer)
  },
  every(periodMs, run) {
    const timer = setInterval(run, periodMs).unref()
    return () => clearInterval(timer)
  },
}

const FIRST_BACKOFF_MS = 50
const MAX_BACKOFF_MS = 1000

/**
 * Exponential back-off up to a second, with jitter so that replicas do not retry in step.
 * @param failures failed attempts so far, from 1
 * @param random from 0 to 1
 */
export function backoffMs(failures: number, random: number): number {
  const ceiling = Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** Math.min(failures, 10))
  return Math.round((ceiling / 2) * (1 + random))
}
