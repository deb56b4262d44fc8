export { systemTimers, type Timers } from '../../../domain/timers.ts'

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
