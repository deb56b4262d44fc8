import { monotonicFactory } from 'ulid'

const KEY_ID = /^key_[0-9A-HJKMNP-TV-Z]{26}$/

export type RandomBytes = (size: number) => Uint8Array

/**
 * Ids that grow with time, also within a millisecond: lists of keys, audit entries and webhook events are in their order.
 * @returns makes the next id, given the time in ms since the epoch
 */
export function createIds(
  prefix: 'key' | 'audit' | 'msg' | 'tok',
  randomBytes: RandomBytes,
): (nowMs: number) => string {
  // A ULID takes five random bits at a time; one byte holds eight.
  const next = monotonicFactory(() => (randomBytes(1)[0] ?? 0) / 256)
  return nowMs => `${prefix}_${next(nowMs)}`
}

/** Whether the text has the form of a key id: `key_` and a ULID. */
export function isKeyId(text: string): boolean {
  return KEY_ID.test(text)
}
