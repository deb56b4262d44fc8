import { parseInstant } from './issue-key.ts'
import { CHOSEN_FIELDS, type ChosenField, planFields, type RequestedFields } from './key-fields.ts'
import { type FinalState, isFinal, type KeyRecord, keyState } from './key-record.ts'

/** What a caller asks for; absent fields stay. Its types are checked; what it says is not. */
export interface EditRequest extends RequestedFields {
  /** ISO 8601 with an offset. */
  readonly expiresAt?: string | undefined
}

export interface EditContext {
  /** What keys begin with. */
  readonly keyPrefix: string
  /** Milliseconds since the epoch. */
  readonly nowMs: number
}

export const EARLIER_EXPIRY_EXPECTED =
  'an instant such as 2027-02-18T09:00:00Z, in the future and no later than the present expiry'

export type PlannedEdit =
  /** @property record the same object where nothing changes */
  | { readonly kind: 'planned'; readonly record: KeyRecord; readonly changed: readonly EditedField[] }
  /** @property expected what the field must be, in words that follow `must be` */
  | { readonly kind: 'invalid'; readonly field: string; readonly expected: string }
  | { readonly kind: 'final'; readonly state: FinalState }

export type EditedField = ChosenField | 'expiresAtMs'
const EDITABLE_FIELDS: readonly EditedField[] = [...CHOSEN_FIELDS, 'expiresAtMs']

/** An expiry can only become earlier: for a later one, issue or rotate a key. */
export function planEdit(
  record: KeyRecord,
  request: EditRequest,
  { keyPrefix, nowMs }: EditContext,
): PlannedEdit {
  const chosen = planFields(request, record, keyPrefix)
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
