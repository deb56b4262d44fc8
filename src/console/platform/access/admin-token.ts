import { toInstant } from '../../../domain/instant.ts'
import { planExpiry } from '../../../domain/key/issue-key.ts'
import { type Planned, problemOfKeyName } from '../../../domain/key/key-fields.ts'
import { isWorkspaceId } from '../../../domain/key/key-record.ts'
import { holdsKeyForm } from '../../../domain/key/secret.ts'
import { PERMISSIONS, type Permission } from './permission.ts'

export const TOKEN_PREFIX = 'pat_'
export const MAX_TOKEN_WORKSPACES = 1000
const TOKEN_ID = /^tok_[0-9A-HJKMNP-TV-Z]{26}$/

/** A token for programs that use the admin API. */
export interface AdminToken {
  /** `tok_` and a ULID. */
  readonly id: string
  readonly name: string
  readonly hint: string
  readonly permissions: readonly Permission[]
  /** Null for all. */
  readonly workspaces: readonly string[] | null
  readonly createdAtMs: number
  readonly createdBy: string
  readonly expiresAtMs: number
  readonly revokedAtMs: number | null
  /** To the minute; null if it was never used. */
  readonly lastUsedAtMs: number | null
}

export interface TokenRequest {
  readonly name: string
  readonly permissions: readonly string[]
  readonly workspaces?: readonly string[] | undefined
  /** Fractions are allowed. This or `expiresAt`. */
  readonly expiresInDays?: number | undefined
  /** ISO 8601 with an offset. */
  readonly expiresAt?: string | undefined
}

interface TokenContext {
  readonly id: string
  readonly hint: string
  readonly createdBy: string
  /** Of API keys: a name must not hold one. */
  readonly keyPrefix: string
  readonly nowMs: number
}

export const PERMISSIONS_EXPECTED = `a list of at least one of ${PERMISSIONS.join(', ')}`
export const TOKEN_WORKSPACES_EXPECTED = `a list of 1 to ${MAX_TOKEN_WORKSPACES} workspace ids, or absent for all`

export function isTokenId(text: string): boolean {
  return TOKEN_ID.test(text)
}

/** The record of a new token, or the first field that is wrong. */
export function planToken(request: TokenRequest, context: TokenContext): Planned<AdminToken> {
  const { name } = request
  const expectedName = problemOfKeyName(name)
  if (expectedName !== null) return wrong('name', expectedName)
  if ([context.keyPrefix, TOKEN_PREFIX].some(prefix => holdsKeyForm(name, prefix))) {
    return wrong('name', 'a name without an API key or token in it')
  }
  const permissions = PERMISSIONS.filter(permission => request.permissions.includes(permission))
  if (permissions.length === 0 || permissions.length !== new Set(request.permissions).size) {
    return wrong('permissions', PERMISSIONS_EXPECTED)
  }
  const workspaces = request.workspaces === undefined ? null : [...new Set(request.workspaces)].sort()
  if (workspaces !== null && !areWorkspaces(workspaces)) return wrong('workspaces', TOKEN_WORKSPACES_EXPECTED)
  const expiry = planExpiry(request, context.nowMs)
  if (!expiry.ok) return expiry
  const { id, hint, createdBy, nowMs } = context
  const granted = { permissions, workspaces, expiresAtMs: expiry.value }
  const unused = { revokedAtMs: null, lastUsedAtMs: null }
  return { ok: true, value: { id, name, hint, ...granted, createdAtMs: nowMs, createdBy, ...unused } }
}

/** Why a token is rejected; null if it is good. */
export function tokenProblem(token: AdminToken, nowMs: number): 'revoked' | 'expired' | null {
  if (token.revokedAtMs !== null) return 'revoked'
  return nowMs >= token.expiresAtMs ? 'expired' : null
}

export function tokenJson(token: AdminToken) {
  const { id, name, hint, permissions, workspaces, createdBy } = token
  return {
    id,
    name,
    hint,
    permissions,
    workspaces,
    createdAt: toInstant(token.createdAtMs),
    createdBy,
    expiresAt: toInstant(token.expiresAtMs),
    revokedAt: toInstant(token.revokedAtMs),
    lastUsedAt: toInstant(token.lastUsedAtMs),
  }
}

function areWorkspaces(workspaces: readonly string[]): boolean {
  return (
    workspaces.length >= 1 && workspaces.length <= MAX_TOKEN_WORKSPACES && workspaces.every(isWorkspaceId)
  )
}

function wrong(field: string, expected: string): { ok: false; field: string; expected: string } {
  return { ok: false, field, expected }
}
