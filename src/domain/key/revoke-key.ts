import { isFinal, type KeyRecord, keyState } from './key-record.ts'

/**
 * The record after a revocation, which also ends a suspension. A revoked or expired record is returned as it is: both states
 * are final.
 * @param nowMs milliseconds since the epoch
 */
export function planRevocation(record: KeyRecord, nowMs: number): KeyRecord {
  if (isFinal(keyState(record, nowMs))) return record
  return { ...record, revokedAtMs: nowMs, suspendedAtMs: null, version: record.version + 1 }
}
