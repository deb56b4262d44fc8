import { type IssueRequest, parseInstant, planExpiry, UNTOUCHED } from './issue-key.ts'
import {
  CHOSEN_FIELDS,
  type ChosenField,
  type FieldContext,
  planFields,
  type RequestedFields,
} from './key-fields.ts'
import { type FinalState, isFinal, type KeyRecord, type KeyState, keyState } from './key-record.ts'

/** What a caller asks for; absent fields stay. Its types are checked; what it says is not. */
export interface EditRequest extends RequestedFields {
  /** ISO 8601 with an offset. */
  readonly expiresAt?: string | undefined
}

interface EditContext extends FieldContext {
  /** Milliseconds since the epoch. */
  readonly nowMs: number
}

const EARLIER_EXPIRY_EXPECTED =
  'an instant such as 2027-02-18T09:00:00Z, in the future and no later than the present expiry'

type PlannedEdit =
  /** @property record the same object where nothing changes */
  | { readonly kind: 'planned'; readonly record: KeyRecord; readonly changed: readonly EditedField[] }
  /** @property expected what the field must be, in words that follow `must be` */
  | { readonly kind: 'invalid'; readonly field: string; readonly expected: string }
  | { readonly kind: 'final'; readonly state: FinalState }

export type EditedField = ChosenField | 'expiresAtMs'
const EDITABLE_FIELDS: readonly EditedField[] = [...CHOSEN_FIELDS, 'expiresAtMs']

/** An expiry can only become earlier: for a later one, issue or rotate a key. */
export function planEdit(record: KeyRecord, request: EditRequest, context: EditContext): PlannedEdit {
  const { nowMs } = context
  const chosen = planFields(request, record, context)
  if (!chosen.ok) return { kind: 'invalid', field: chosen.field, expected: chosen.expected }
  const state = keyState(record, nowMs)
  if (isFinal(state)) return { kind: 'final', state }
  const { expiresAt } = request
  const expiresAtMs = expiresAt === undefined ? record.expiresAtMs : parseInstant(expiresAt)
  if (expiresAtMs === null || expiresAtMs <= nowMs || expiresAtMs > record.expiresAtMs) {
    return { kind: 'invalid', field: 'expiresAt', expected: EARLIER_EXPIRY_EXPECTED }
  }
  const edited: KeyRecord = { ...record, ...chosen.value, expiresAtMs, version: record.version + 1 }
  const changed = EDITABLE_FIELDS.filter(field => !isEqual(edited[field], record[field]))
  return { kind: 'planned', record: changed.length === 0 ? record : edited, changed }
}

function isEqual(a: KeyRecord[EditedField], b: KeyRecord[EditedField]): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

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
type PlannedStep =
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

export const DEFAULT_OVERLAP_SECONDS = 86_400
export const MAX_OVERLAP_SECONDS = 30 * 86_400
export const OVERLAP_EXPECTED = `a number of seconds, from 0 to ${MAX_OVERLAP_SECONDS} (30 days)`

/** The request for a rotation. The caller has checked the types of its fields, but not their values. */
export interface RotateRequest extends Pick<IssueRequest, 'expiresInDays' | 'expiresAt'> {
  /** How long the old key still works. */
  readonly overlapSeconds?: number | undefined
}

/** The fields that the registry adds to the request. */
interface RotateContext {
  /** Id of the new key. */
  readonly id: string
  readonly hint: string
  readonly createdBy: string
  /** Milliseconds since the epoch. */
  readonly nowMs: number
}

export interface Rotation {
  readonly successor: KeyRecord
  /** The old key: it works until the overlap ends; without an overlap it is revoked. */
  readonly replaced: KeyRecord
  readonly overlapSeconds: number
}

type PlannedRotation =
  | { readonly kind: 'planned'; readonly rotation: Rotation }
  /** @property expected what the field must be, in words that follow `must be` */
  | { readonly kind: 'invalid'; readonly field: string; readonly expected: string }
  | { readonly kind: 'not_active'; readonly state: KeyState }

/**
 * A new key with the same workspace, name and scopes, and the old key with its new expiry. Only an active key can be
 * rotated: a retiring key is replaced already, revoked and expired are final. Without an overlap the old key is revoked.
 */
export function planRotation(
  record: KeyRecord,
  request: RotateRequest,
  { id, hint, createdBy, nowMs }: RotateContext,
): PlannedRotation {
  const { overlapSeconds = DEFAULT_OVERLAP_SECONDS } = request
  if (!(overlapSeconds >= 0 && overlapSeconds <= MAX_OVERLAP_SECONDS)) {
    return { kind: 'invalid', field: 'overlapSeconds', expected: OVERLAP_EXPECTED }
  }
  const expiry = planExpiry(request, nowMs)
  if (!expiry.ok) return { kind: 'invalid', field: expiry.field, expected: expiry.expected }
  const state = keyState(record, nowMs)
  if (state !== 'active') return { kind: 'not_active', state }
  const overlapEndsMs = nowMs + Math.round(overlapSeconds * 1000)
  const replaced: KeyRecord = {
    ...record,
    revokedAtMs: overlapEndsMs > nowMs ? null : nowMs,
    replacedBy: id,
    expiresAtMs: Math.min(record.expiresAtMs, overlapEndsMs),
    version: record.version + 1,
  }
  const own = { id, hint, createdAtMs: nowMs, createdBy, expiresAtMs: expiry.value, rotatedFrom: record.id }
  const successor: KeyRecord = { ...record, ...own, ...UNTOUCHED }
  return { kind: 'planned', rotation: { successor, replaced, overlapSeconds } }
}
