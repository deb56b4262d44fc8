import { normalizeScopes } from '../scope.ts'
import { BLANK_FIELDS, type Planned, planFields, type RequestedFields, wrong } from './key-fields.ts'
import type { KeyRecord } from './key-record.ts'

export const DEFAULT_LIFETIME_DAYS = 90
export const MAX_LIFETIME_DAYS = 366
export const MAX_SCOPES = 64
const DAY_MS = 86_400_000
const MIN_LIFETIME_MS = 60_000
const INSTANT = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/

/** The request for a new key. The caller has checked the types of its fields, but not their values. */
export interface IssueRequest extends RequestedFields {
  readonly name: string
  readonly scopes: readonly string[]
  /** Fractions are allowed: an hour is 1/24. */
  readonly expiresInDays?: number | undefined
  /** ISO 8601 with an offset. */
  readonly expiresAt?: string | undefined
}

/** The fields that the registry adds to the request. */
export interface IssueContext {
  /** `key_` and a ULID. */
  readonly id: string
  readonly workspaceId: string
  readonly hint: string
  /** The prefix of every key. */
  readonly keyPrefix: string
  readonly createdBy: string
  /** Scopes configured in this installation. */
  readonly knownScopes: readonly string[]
  /** Milliseconds since the epoch. */
  readonly nowMs: number
}

/** The record of a new key, or the first field that is wrong. */
export function planIssue(request: IssueRequest, context: IssueContext): Planned<KeyRecord> {
  const chosen = planFields(request, BLANK_FIELDS, context.keyPrefix)
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
export const UNTOUCHED = { revokedAtMs: null, suspendedAtMs: null, replacedBy: null, version: 1 } as const

/** A key without scopes is useless, so a request for one is a mistake. */
export function areKnownScopes(scopes: readonly string[], known: readonly string[]): boolean {
  return scopes.length >= 1 && scopes.length <= MAX_SCOPES && scopes.every(scope => known.includes(scope))
}

export function scopesExpected(known: readonly string[]): string {
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

/** Rejects days that do not exist: Date.parse reads 30 February as 2 March. */
export function parseInstant(text: string): number | null {
  const [, year, month, day] = INSTANT.exec(text) ?? []
  const ms = Date.parse(text)
  if (day === undefined || Number.isNaN(ms)) return null
  return Number(day) <= new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate() ? ms : null
}
