import { isFinal, type KeyRecord, keyState } from './key-record.ts'
import type { PlannedStep } from './suspend-key.ts'

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
