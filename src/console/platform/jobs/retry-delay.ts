const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS

/** Nine attempts in about 28 hours, so that a receiver that is down overnight misses no event. */
const WAITS_MS = [
  5 * SECOND_MS,
  MINUTE_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  10 * HOUR_MS,
] as const

/**
 * @param attempts failed so far, from 1
 * @param random from 0 to 1; adds up to 10 %, so that simultaneous failures do not retry together
 * @returns ms until the next attempt; null after the last
 */
export function retryDelayMs(attempts: number, random: number): number | null {
  const waitMs = WAITS_MS[attempts - 1]
  return waitMs === undefined ? null : Math.round(waitMs * (1 + random / 10))
}
