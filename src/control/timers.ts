/** Waiting comes in as a value too, so that a test decides what time it is. Each call answers how to call it off. */
export interface Timers {
  after(delayMs: number, run: () => void): () => void
  every(periodMs: number, run: () => void): () => void
}

/** None of them keeps the process alive. */
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
 * How long to wait before the next attempt: doubling, at most a second, jittered so that replicas don't march in step.
 * @param failures how many attempts have failed, from 1
 * @param random from 0 to 1
 */
export function backoffMs(failures: number, random: number): number {
  const ceiling = Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** Math.min(failures, 10))
  return Math.round((ceiling / 2) * (1 + random))
}
