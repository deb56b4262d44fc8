import { type IssueRequest, planExpiry, UNTOUCHED } from './issue-key.ts'
import { type KeyRecord, type KeyState, keyState } from './key-record.ts'

export const DEFAULT_OVERLAP_SECONDS = 86_400
export const MAX_OVERLAP_SECONDS = 30 * 86_400
export const OVERLAP_EXPECTED = `a number of seconds, from 0 to ${MAX_OVERLAP_SECONDS} (30 days)`

/** What a caller asks for. Its types are checked; what it says is not. */
export interface RotateRequest extends Pick<IssueRequest, 'expiresInDays' | 'expiresAt'> {
  /** How long the old key goes on working. */
  readonly overlapSeconds?: number | undefined
}

/** What the registry adds to it. */
export interface RotateContext {
  /** Of the successor. */
  readonly id: string
  readonly hint: string
  readonly createdBy: string
  /** Milliseconds since the epoch. */
  readonly nowMs: number
}

export interface Rotation {
  readonly successor: KeyRecord
  /** The old key: it works until the overlap ends, and is revoked where there is no overlap. */
  readonly replaced: KeyRecord
  readonly overlapSeconds: number
}

export type PlannedRotation =
  | { readonly kind: 'planned'; readonly rotation: Rotation }
  /** @property expected what the field must be, in words that follow `must be` */
  | { readonly kind: 'invalid'; readonly field: string; readonly expected: string }
  | { readonly kind: 'not_active'; readonly state: KeyState }

/**
 * A successor that may do what the key may, and the key with an end. Only an active key can have one: a retiring key has
 * its successor already, and what is dead must not come back to life. A rotation without overlap revokes the key.
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
