import { monotonicFactory } from 'ulid'

export type RandomBytes = (size: number) => Uint8Array

/**
 * Ids that grow with time, also within a millisecond: they are the order in which keys, audit entries and notices are listed.
 * @returns makes the next id, given the time in ms since the epoch
 */
export function createIds(
  prefix: 'key' | 'audit' | 'msg',
  randomBytes: RandomBytes,
): (nowMs: number) => string {
  // A ULID takes five bits at a time, so that the eight of one byte are enough for each.
  const next = monotonicFactory(() => (randomBytes(1)[0] ?? 0) / 256)
  return nowMs => `${prefix}_${next(nowMs)}`
}
