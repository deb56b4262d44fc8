const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS

/** Waits between attempts: nine attempts in about 28 hours, so that a receiver that is down over a night misses nothing. */
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
 * @param attempts how many have failed, from 1
 * @param random from 0 to 1; up to a tenth is added, so that what failed together does not come back together
 * @returns ms until the next attempt; null where there is none
 */
export function waitAfter(attempts: number, random: number): number | null {
  const waitMs = WAITS_MS[attempts - 1]
  return waitMs === undefined ? null : Math.round(waitMs * (1 + random / 10))
}
