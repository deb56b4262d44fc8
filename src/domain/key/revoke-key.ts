import { type KeyRecord, keyState } from './key-record.ts'

/**
 * The record after a revocation. The same object where nothing changes: revoked and expired are final.
 * @param nowMs milliseconds since the epoch
 */
export function planRevocation(record: KeyRecord, nowMs: number): KeyRecord {
  const state = keyState(record, nowMs)
  if (state === 'revoked' || state === 'expired') return record
  return { ...record, revokedAtMs: nowMs, version: record.version + 1 }
}
