import { normalizeScopes } from '../scope.ts'
import { hasVisible } from '../visible-text.ts'
import { areKnownScopes, MAX_LIFETIME_DAYS, parseInstant, scopesExpected, UNTOUCHED } from './issue-key.ts'
import { BLANK_FIELDS, type Planned, planFields, type RequestedFields, wrong } from './key-fields.ts'
import { isWorkspaceId, type KeyRecord } from './key-record.ts'
import { TEXT_NAMES } from './key-texts.ts'
import { digestOf, holdsKeyForm } from './secret.ts'

const DAY_MS = 86_400_000
const DIGEST = /^[0-9a-f]{64}$/
const HINT = /^[^\p{Cc}\p{Cs}]{1,64}$/u

export const DIGEST_EXPECTED = 'the SHA-256 digest of the whole key, in 64 lower-case hexadecimal digits'
export const HINT_EXPECTED = '1 to 64 characters that are not the key, such as its last four'
export const WORKSPACE_ID_EXPECTED =
  '1 to 128 characters of A-Z, a-z, 0-9 and "-", ".", "_", "~", not "." or ".."'
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
}

/** The fields that the registry adds. */
export interface ImportContext {
  readonly id: string
  readonly keyPrefix: string
  readonly createdBy: string
  readonly knownScopes: readonly string[]
  /** Milliseconds since the epoch. */
  readonly nowMs: number
}

/**
 * The record of an imported key, or the first field that is wrong. A key keeps its state: one that has ended is imported
 * as ended, so that its owner still learns why it is rejected.
 */
export function planImport(entry: ImportEntry, context: ImportContext): Planned<KeyRecord> {
  const { digest, hint, workspaceId } = entry
  const { id, keyPrefix, createdBy, knownScopes, nowMs } = context
  if (!DIGEST.test(digest)) return wrong('digest', DIGEST_EXPECTED)
  if (!isWorkspaceId(workspaceId)) return wrong('workspaceId', WORKSPACE_ID_EXPECTED)
  if (!HINT.test(hint) || !hasVisible(hint) || holdsKeyForm(hint, keyPrefix) || digestOf(hint) === digest) {
    return wrong('hint', HINT_EXPECTED)
  }
  const chosen = planFields(entry, BLANK_FIELDS, keyPrefix)
  if (!chosen.ok) return chosen
  const secretField = (['name', ...TEXT_NAMES] as const).find(field => {
    const text = chosen.value[field]
    return text !== null && digestOf(text) === digest
  })
  if (secretField !== undefined) return wrong(secretField, 'a text other than the key')
  const scopes = normalizeScopes(entry.scopes)
  if (!areKnownScopes(scopes, knownScopes)) return wrong('scopes', scopesExpected(knownScopes))
  const times = planTimes(entry, nowMs)
  if (!times.ok) return times
  const identity = { id, workspaceId, ...chosen.value, scopes, hint, createdAtMs: nowMs, createdBy }
  return { ok: true, value: { ...identity, ...UNTOUCHED, ...times.value, rotatedFrom: null } }
}

type Times = Pick<KeyRecord, 'expiresAtMs' | 'revokedAtMs' | 'suspendedAtMs'>

function planTimes({ expiresAt, revokedAt, suspendedAt }: ImportEntry, nowMs: number): Planned<Times> {
  const expiresAtMs = parseInstant(expiresAt)
  if (expiresAtMs === null || expiresAtMs < 0 || expiresAtMs > nowMs + MAX_LIFETIME_DAYS * DAY_MS) {
    return wrong('expiresAt', IMPORTED_EXPIRY_EXPECTED)
  }
  const revokedAtMs = pastOf(revokedAt, nowMs)
  if (revokedAtMs === undefined) return wrong('revokedAt', PAST_EXPECTED)
  const suspendedAtMs = pastOf(suspendedAt, nowMs)
  if (suspendedAtMs === undefined) return wrong('suspendedAt', PAST_EXPECTED)
  return {
    ok: true,
    value: { expiresAtMs, revokedAtMs, suspendedAtMs: revokedAtMs === null ? suspendedAtMs : null },
  }
}

export const PAST_EXPECTED = 'null or an instant such as 2026-02-18T09:00:00Z, not in the future'

/** @returns undefined for what is no instant, or lies in the future */
function pastOf(text: string | null | undefined, nowMs: number): number | null | undefined {
  if (text === null || text === undefined) return null
  const ms = parseInstant(text)
  return ms === null || ms < 0 || ms > nowMs ? undefined : ms
}
