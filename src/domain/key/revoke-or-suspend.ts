import { type FinalState, isFinal, type KeyRecord, keyState } from './key-record.ts'

/**
 * The record after a revocation, which also ends a suspension. A revoked or expired record is returned as it is: both states
 * are final.
 * @param nowMs milliseconds since the epoch
 */
export function planRevocation(record: KeyRecord, nowMs: number): KeyRecord {
  if (isFinal(keyState(record, nowMs))) return record
  return { ...record, revokedAtMs: nowMs, suspendedAtMs: null, version: record.version + 1 }
}

/** @property record the same object where nothing changes */
export type PlannedStep =
  | { readonly kind: 'planned'; readonly record: KeyRecord }
  | { readonly kind: 'final'; readonly state: FinalState }

/**
 * Rejects an active or retiring key until it is resumed. Its expiry runs on. A suspended key stays as it is.
 * @param nowMs milliseconds since the epoch
 */
export function planSuspension(record: KeyRecord, nowMs: number): PlannedStep {
  const state = keyState(record, nowMs)
  if (isFinal(state)) return { kind: 'final', state }
  if (state === 'suspended') return { kind: 'planned', record }
  return { kind: 'planned', record: { ...record, suspendedAtMs: nowMs, version: record.version + 1 } }
}

/**
 * Ends a suspension: the key is active or retiring again. A key that is not suspended stays as it is.
 * @param nowMs milliseconds since the epoch
 */
export function planResumption(record: KeyRecord, nowMs: number): PlannedStep {
  const state = keyState(record, nowMs)
  if (isFinal(state)) return { kind: 'final', state }
  if (state !== 'suspended') return { kind: 'planned', record }
  return { kind: 'planned', record: { ...record, suspendedAtMs: null, version: record.version + 1 } }
}
