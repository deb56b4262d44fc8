import { parseInstant } from '../form/instant.ts'
import { hasVisible } from '../form/text.ts'
import {
  BLANK_FIELDS,
  CHOSEN_FIELDS,
  type ChosenField,
  type FieldContext,
  type Planned,
  planFields,
  type RequestedFields,
  wrong,
} from './key-fields.ts'
import {
  type FinalState,
  isFinal,
  isWorkspaceId,
  type KeyRecord,
  type KeyState,
  keyState,
  normalizeScopes,
  WORKSPACE_ID_EXPECTED,
} from './key-record.ts'
import { TEXT_NAMES } from './key-texts.ts'
import { digestKey, holdsSecretForm } from './secret.ts'

export const DEFAULT_LIFETIME_DAYS = 90
export const MAX_LIFETIME_DAYS = 366
const MAX_SCOPES = 64
const DAY_MS = 86_400_000
const MIN_LIFETIME_MS = 60_000

/** The request for a new key. The caller has checked the types of its fields, but not their values. */
export interface IssueRequest extends RequestedFields {
  readonly name: string
  readonly scopes: readonly string[]
  /** Fractions are allowed: an hour is 1/24. */
  readonly expiresInDays?: number | undefined
  /** ISO 8601 with an offset. */
  readonly expiresAt?: string | undefined
}

/** The fields that the registry adds to a key that it does not have yet. */
interface NewKeyContext extends FieldContext {
  /** `key_` and a ULID. */
  readonly id: string
  /** The plan of the workspace: that of a key for which none is chosen. */
  readonly workspacePlan: string | null
  readonly createdBy: string
  /** Scopes configured in this installation. */
  readonly knownScopes: readonly string[]
  /** Milliseconds since the epoch. */
  readonly nowMs: number
}

interface IssueContext extends NewKeyContext {
  readonly workspaceId: string
  readonly hint: string
}

/** The record of a new key, or the first field that is wrong. */
export function planIssue(request: IssueRequest, context: IssueContext): Planned<KeyRecord> {
  const chosen = planFields(request, { ...BLANK_FIELDS, plan: context.workspacePlan }, context)
  if (!chosen.ok) return chosen
  const scopes = normalizeScopes(request.scopes)
  if (!areKnownScopes(scopes, context.knownScopes))
    return wrong('scopes', scopesExpected(context.knownScopes))
  const expiry = planExpiry(request, context.nowMs)
  if (!expiry.ok) return expiry
  const { id, workspaceId, hint, createdBy, nowMs } = context
  const identity = { id, workspaceId, ...chosen.value, scopes, hint, createdAtMs: nowMs, createdBy }
  return { ok: true, value: { ...identity, expiresAtMs: expiry.value, ...UNTOUCHED, rotatedFrom: null } }
}

/** The fields of a new key that only later operations change. */
const UNTOUCHED = { revokedAtMs: null, suspendedAtMs: null, replacedBy: null, version: 1 } as const

/** A key without scopes is useless, so a request for one is a mistake. */
function areKnownScopes(scopes: readonly string[], known: readonly string[]): boolean {
  return scopes.length >= 1 && scopes.length <= MAX_SCOPES && scopes.every(scope => known.includes(scope))
}

function scopesExpected(known: readonly string[]): string {
  return `a list of at least one of ${[...known].sort().join(', ')}`
}

/** @returns milliseconds since the epoch, one minute to 366 days from now */
export function planExpiry(
  request: Pick<IssueRequest, 'expiresInDays' | 'expiresAt'>,
  nowMs: number,
): Planned<number> {
  const { expiresInDays, expiresAt } = request
  if (expiresAt === undefined) return planLifetime(expiresInDays ?? DEFAULT_LIFETIME_DAYS, nowMs)
  if (expiresInDays !== undefined) return wrong('expiresAt', 'absent where expiresInDays is given')
  const expiresAtMs = parseInstant(expiresAt)
  if (expiresAtMs === null || !isLifetime(expiresAtMs - nowMs)) return wrong('expiresAt', EXPIRES_AT_EXPECTED)
  return { ok: true, value: expiresAtMs }
}

export const EXPIRES_AT_EXPECTED =
  'an instant such as 2027-02-18T09:00:00Z, from 1 minute to 366 days from now'
export const EXPIRES_IN_DAYS_EXPECTED = `a number of days, from 1 minute (0.000695) to ${MAX_LIFETIME_DAYS}`

function planLifetime(days: number, nowMs: number): Planned<number> {
  const lifetimeMs = Math.round(days * DAY_MS)
  if (!isLifetime(lifetimeMs)) return wrong('expiresInDays', EXPIRES_IN_DAYS_EXPECTED)
  return { ok: true, value: nowMs + lifetimeMs }
}

function isLifetime(lifetimeMs: number): boolean {
  return lifetimeMs >= MIN_LIFETIME_MS && lifetimeMs <= MAX_LIFETIME_DAYS * DAY_MS
}

const DIGEST = /^[0-9a-f]{64}$/
const HINT = /^[^\p{Cc}\p{Cs}]{1,64}$/u

export const DIGEST_EXPECTED = 'the SHA-256 digest of the whole key, in 64 lower-case hexadecimal digits'
export const HINT_EXPECTED = '1 to 64 characters that are not the key, such as its last four'
export const IMPORTED_EXPIRY_EXPECTED = `an instant such as 2027-02-18T09:00:00Z, at most ${MAX_LIFETIME_DAYS} days from now`

/** The record of a key of another system. Its types are checked; what it says is not. */
export interface ImportEntry extends RequestedFields {
  readonly digest: string
  readonly hint: string
  readonly workspaceId: string
  readonly name: string
  readonly scopes: readonly string[]
  /** ISO 8601 with an offset, like the other instants. */
  readonly expiresAt: string
  readonly revokedAt?: string | null | undefined
  readonly suspendedAt?: string | null | undefined
  /** The id that the key which replaces it had where it was exported. */
  readonly replacedBy?: string | null | undefined
}

/**
 * The record of an imported key, or the first field that is wrong. A key keeps its state: one that has ended is imported
 * as ended, so that its owner still learns why it is rejected, and one that was replaced stays so until its end.
 */
export function planImport(entry: ImportEntry, context: NewKeyContext): Planned<KeyRecord> {
  const { digest, hint, workspaceId, replacedBy = null } = entry
  const { id, keyPrefix, createdBy, knownScopes, nowMs } = context
  if (!DIGEST.test(digest)) return wrong('digest', DIGEST_EXPECTED)
  if (!isWorkspaceId(workspaceId)) return wrong('workspaceId', WORKSPACE_ID_EXPECTED)
  const isHint = HINT.test(hint) && hasVisible(hint) && !holdsSecretForm(hint, keyPrefix)
  if (!isHint || digestKey(hint) === digest) {
    return wrong('hint', HINT_EXPECTED)
  }
  const chosen = planFields(entry, { ...BLANK_FIELDS, plan: context.workspacePlan }, context)
  if (!chosen.ok) return chosen
  const secretField = (['name', ...TEXT_NAMES] as const).find(field => {
    const text = chosen.value[field]
    return text !== null && digestKey(text) === digest
  })
  if (secretField !== undefined) return wrong(secretField, 'a text other than the key')
  const scopes = normalizeScopes(entry.scopes)
  if (!areKnownScopes(scopes, knownScopes)) return wrong('scopes', scopesExpected(knownScopes))
  const times = planTimes(entry, nowMs)
  if (!times.ok) return times
  const identity = { id, workspaceId, ...chosen.value, scopes, hint, createdAtMs: nowMs, createdBy }
  return { ok: true, value: { ...identity, ...UNTOUCHED, ...times.value, rotatedFrom: null, replacedBy } }
}

type Times = Pick<KeyRecord, 'expiresAtMs' | 'revokedAtMs' | 'suspendedAtMs'>

function planTimes({ expiresAt, revokedAt, suspendedAt }: ImportEntry, nowMs: number): Planned<Times> {
  const expiresAtMs = parseInstant(expiresAt)
  if (expiresAtMs === null || expiresAtMs < 0 || expiresAtMs > nowMs + MAX_LIFETIME_DAYS * DAY_MS) {
    return wrong('expiresAt', IMPORTED_EXPIRY_EXPECTED)
  }
  const revokedAtMs = parsePastInstant(revokedAt, nowMs)
  if (revokedAtMs === undefined) return wrong('revokedAt', PAST_EXPECTED)
  const suspendedAtMs = parsePastInstant(suspendedAt, nowMs)
  if (suspendedAtMs === undefined) return wrong('suspendedAt', PAST_EXPECTED)
  return {
    ok: true,
    value: { expiresAtMs, revokedAtMs, suspendedAtMs: revokedAtMs === null ? suspendedAtMs : null },
  }
}

export const PAST_EXPECTED = 'null or an instant such as 2026-02-18T09:00:00Z, not in the future'

/** @returns undefined for what is no instant, or lies in the future */
function parsePastInstant(text: string | null | undefined, nowMs: number): number | null | undefined {
  if (text === null || text === undefined) return null
  const ms = parseInstant(text)
  return ms === null || ms < 0 || ms > nowMs ? undefined : ms
}

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

/**
 * Gives a key that has not ended another plan; one that has it stays as it is.
 * @param nowMs milliseconds since the epoch
 */
export function planNewPlan(record: KeyRecord, plan: string | null, nowMs: number): KeyRecord {
  if (isFinal(keyState(record, nowMs)) || record.plan === plan) return record
  return { ...record, plan, version: record.version + 1 }
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
