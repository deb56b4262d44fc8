import type { ChosenFields } from './key-fields.ts'

/** The largest version of a record: what an integer column of every SQL database holds. */
export const MAX_VERSION = 2_147_483_647

/** All fields that the registry stores about a key. The secret is never stored: only its hint and, elsewhere, its digest. */
export interface KeyRecord extends ChosenFields {
  /** `key_` and a ULID. */
  readonly id: string
  /** The one workspace the key is bound to; never changed. */
  readonly workspaceId: string
  /** Sorted, each once. */
  readonly scopes: readonly string[]
  /** Identifies the key to people without its secret: `wsk_…x7Qf`. */
  readonly hint: string
  readonly createdAtMs: number
  readonly createdBy: string
  readonly expiresAtMs: number
  readonly revokedAtMs: number | null
  /** Since when the key is rejected until it is resumed; null unless it is suspended. */
  readonly suspendedAtMs: number | null
  readonly rotatedFrom: string | null
  readonly replacedBy: string | null
  /** Grows by one with every change to the record; 1 when issued, `MAX_VERSION` at most. */
  readonly version: number
}

/** A record with the digest of its key. */
export interface StoredKey {
  readonly record: KeyRecord
  readonly digest: string
}

/** Those that a page shows, by id. */
export type KeysById = ReadonlyMap<string, Pick<StoredKey, 'record'>>

/** The fields of a record that decide a request. A gateway stores only these. */
export type KeyGrant = Pick<
  KeyRecord,
  | 'id'
  | 'workspaceId'
  | 'scopes'
  | 'hint'
  | 'expiresAtMs'
  | 'revokedAtMs'
  | 'suspendedAtMs'
  | 'allowedCidrs'
  | 'plan'
  | 'version'
>

export const KEY_STATES = ['active', 'retiring', 'suspended', 'expired', 'revoked'] as const
export type KeyState = (typeof KEY_STATES)[number]

/** States that a key never leaves. */
export type FinalState = Extract<KeyState, 'expired' | 'revoked'>

export function isFinal(state: KeyState): state is FinalState {
  return state === 'expired' || state === 'revoked'
}

/**
 * The state of a key at a given time. Revoked outranks expired, which says less about what happened; both are final and
 * outrank suspended.
 * @param nowMs milliseconds since the epoch
 */
export function keyState(
  record: Pick<KeyRecord, 'expiresAtMs' | 'revokedAtMs' | 'suspendedAtMs' | 'replacedBy'>,
  nowMs: number,
): KeyState {
  if (record.revokedAtMs !== null) return 'revoked'
  if (nowMs >= record.expiresAtMs) return 'expired'
  if (record.suspendedAtMs !== null) return 'suspended'
  return record.replacedBy === null ? 'active' : 'retiring'
}

/** The fields that reject a key which is good otherwise. */
type Restrictions = Omit<KeyGrant, 'id' | 'workspaceId' | 'scopes' | 'hint' | 'plan' | 'version'>

/** Whether the key is restricted more than by the other record, and less in no way. */
export function isStricter(record: Restrictions, other: Restrictions): boolean {
  const { revokedAtMs, suspendedAtMs, expiresAtMs, allowedCidrs: cidrs, ...uncompared } = record
  // A new field of a grant is an error here until it is compared, or left out of the restrictions.
  uncompared satisfies Readonly<Record<string, never>>
  if (revokedAtMs !== null || other.revokedAtMs !== null) return other.revokedAtMs === null
  const others = other.allowedCidrs
  const isWithin = others.length === 0 || (cidrs.length > 0 && cidrs.every(cidr => others.includes(cidr)))
  const isLessInSomeWay =
    (other.suspendedAtMs !== null && suspendedAtMs === null) || expiresAtMs > other.expiresAtMs || !isWithin
  return (
    !isLessInSomeWay &&
    ((suspendedAtMs !== null && other.suspendedAtMs === null) ||
      expiresAtMs < other.expiresAtMs ||
      cidrs.length !== others.length)
  )
}

/** The name under which metrics count all workspaces that the settings do not name. */
export const OTHER_WORKSPACES = 'other'

const WORKSPACE_ID = /^[A-Za-z0-9._~-]{1,128}$/

/** 1 to 128 unreserved characters (RFC 3986, section 2.3), but not a dot segment. */
export function isWorkspaceId(text: string): boolean {
  return WORKSPACE_ID.test(text) && text !== '.' && text !== '..'
}

export const WORKSPACE_ID_EXPECTED =
  '1 to 128 characters of A-Z, a-z, 0-9 and "-", ".", "_", "~", not "." or ".."'

/** The stores of records, in the order in which a connected gateway asks them. */
export type TierName = 'memory' | 'redis' | 'key_service'

/** The result of a lookup. `unknown` and `limited` never mean that the key does not exist. */
export type Lookup =
  | { readonly kind: 'found'; readonly grant: KeyGrant; readonly tier: TierName }
  /** The key service confirmed that there is no such key. */
  | { readonly kind: 'absent'; readonly tier: TierName }
  /** No tier could answer. */
  | { readonly kind: 'unknown' }
  /** There was no lookup: too many unknown keys without a MAC were looked up before. */
  | { readonly kind: 'limited' }

/** A scope-token of RFC 6749, section 3.3, at most 64 characters: safe in a header and in a challenge. */
export const SCOPE_TOKEN = /^[\x21\x23-\x5b\x5d-\x7e]{1,64}$/

export function isScope(text: string): boolean {
  return SCOPE_TOKEN.test(text)
}

/** @returns the scopes sorted, without duplicates: equal sets have one form */
export function normalizeScopes(scopes: readonly string[]): string[] {
  return [...new Set(scopes)].sort()
}
