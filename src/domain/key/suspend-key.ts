import { type FinalState, isFinal, type KeyRecord, keyState } from './key-record.ts'

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
