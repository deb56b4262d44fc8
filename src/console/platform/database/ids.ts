import { encodeTime, monotonicFactory } from 'ulid'
import type { IdKind } from '../../../domain/id-form.ts'

export type RandomBytes = (size: number) => Uint8Array

/**
 * Ids that grow with time, also within a millisecond: lists of keys, audit entries and webhook events are in their order.
 * @returns makes the next id, given the time in ms since the epoch
 */
export function createIds(kind: IdKind, randomBytes: RandomBytes): (nowMs: number) => string {
  // A ULID takes five random bits at a time; one byte holds eight.
  const next = monotonicFactory(() => (randomBytes(1)[0] ?? 0) / 256)
  return nowMs => `${kind}_${next(nowMs)}`
}

const ULID_TIME_LENGTH = 10

/** Not greater than any id of an audit entry that is made from this time on. */
export function firstAuditIdAt(ms: number): string {
  return `audit_${encodeTime(Math.max(0, ms), ULID_TIME_LENGTH)}`
}
