import { type IssueRequest, planExpiry, UNTOUCHED } from './issue-key.ts'
import { type KeyRecord, type KeyState, keyState } from './key-record.ts'

export const DEFAULT_OVERLAP_SECONDS = 86_400
export const MAX_OVERLAP_SECONDS = 30 * 86_400
export const OVERLAP_EXPECTED = `a number of seconds, from 0 to ${MAX_OVERLAP_SECONDS} (30 days)`

/** The request for a rotation. The caller has checked the types of its fields, but not their values. */
export interface RotateRequest extends Pick<IssueRequest, 'expiresInDays' | 'expiresAt'> {
  /** How long the old key still works. */
  readonly overlapSeconds?: number | undefined
}

/** The fields that the registry adds to the request. */
export interface RotateContext {
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

export type PlannedRotation =
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
