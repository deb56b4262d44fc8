import type { Clock } from '../../domain/clock.ts'
import { toInstant } from '../../domain/form/instant.ts'
import { type Planned, problemOfKeyName, wrong } from '../../domain/key/key-fields.ts'
import { planExpiry } from '../../domain/key/key-life.ts'
import { isWorkspaceId } from '../../domain/key/key-record.ts'
import {
  digestKey,
  hasKeyForm,
  hasKeyMac,
  holdsSecretForm,
  type KeyFormat,
  keyHint,
  mintSecret,
  type Secret,
  TOKEN_PREFIX,
} from '../../domain/key/secret.ts'
import { type ControlLogger, describeError } from '../../observability/control-logger.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import {
  type AdminToken,
  allowedWorkspaces,
  mayGrant,
  PERMISSIONS,
  type Principal,
  sees,
} from '../platform/access/principal.ts'
import { appendAudit, runAudited } from '../platform/audit/chain.ts'
import { auditAccess } from '../platform/audit/entries.ts'
import type { AuditedDatabase } from '../platform/audit/mac.ts'
import { runChange } from '../platform/database/database-unavailable.ts'
import type { RandomBytes } from '../platform/database/ids.ts'
import { type EarlierResponse, findResponse, insertResponse } from '../platform/http/idempotency.ts'
import type { OperationContext } from '../platform/http/request-context.ts'
import {
  findToken,
  insertToken,
  listTokens,
  recordTokenUse,
  revokeTokenRow,
  type TokenQuery,
} from './rows.ts'

export const MAX_TOKEN_WORKSPACES = 1000
export const PERMISSIONS_EXPECTED = `a list of at least one of ${PERMISSIONS.join(', ')}`
export const TOKEN_WORKSPACES_EXPECTED = `a list of 1 to ${MAX_TOKEN_WORKSPACES} workspace ids, or absent for all`
/** A token in constant use is written once a minute, not with every request. */
const ACCURACY_MS = 60_000

export interface AdminTokenParts {
  readonly database: AuditedDatabase
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  readonly logger: ControlLogger
  readonly metrics: Pick<Metrics, 'auditWriteFailures'>
  readonly newTokenId: (nowMs: number) => string
  readonly newAuditId: (nowMs: number) => string
  readonly keyPrefix: string
  /** The first secret signs, all verify. */
  readonly signingKeys: () => Extract<KeyFormat, { kind: 'signed' }>['signingKeys']
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

type TokenRejection =
  /** @property expected completes the sentence `<field> must be …` */
  | { readonly kind: 'invalid'; readonly field: string; readonly expected: string }
  /** It would have rights that its maker lacks. */
  | { readonly kind: 'exceeds' }
  | { readonly kind: 'unknown_token' }
  | { readonly kind: 'other_request' }

export interface TokenSuccess {
  readonly kind: 'done'
  readonly token: AdminToken
  /** Null for a repeated request and for a revocation. */
  readonly secret: Secret | null
  readonly replayed: boolean
}

export type TokenResult = TokenSuccess | TokenRejection

/** Tokens of programs, issued, listed, revoked and recognised. */
export type AdminTokens = ReturnType<typeof createAdminTokens>

export function createAdminTokens(parts: AdminTokenParts) {
  const { database } = parts
  const recording = new Set<string>()
  return {
    issue: (principal: Principal, request: TokenRequest, context: OperationContext) =>
      issueToken(parts, principal, request, context),
    list: (principal: Principal, page: Omit<TokenQuery, 'workspaces'>) =>
      listTokens(database.reader, { ...page, workspaces: allowedWorkspaces(principal) }, database.dialect),
    /** Null for an unknown one, and for one that the principal may not see. */
    find: (principal: Principal, id: string) => findVisible(database.reader, principal, id),
    revoke: (principal: Principal, id: string, context: OperationContext) =>
      revokeToken(parts, principal, id, context),
    /** @returns the reason for a token that was good once; null for any other text */
    identify: (text: string) => identifyToken(parts, recording, text),
  }
}

async function issueToken(
  parts: AdminTokenParts,
  principal: Principal,
  request: TokenRequest,
  { caller, idempotency }: OperationContext,
): Promise<TokenResult> {
  const { database, clock, randomBytes, newTokenId, newAuditId, keyPrefix } = parts
  const nowMs = clock.wallMs()
  const earlier = idempotency === null ? null : await findResponse(database.reader, idempotency, nowMs)
  if (earlier !== null) return replay(earlier)
  const [signingKey] = parts.signingKeys()
  if (signingKey === undefined) throw new Error('keys.signingSecrets: none to sign a token with')
  const secret = mintSecret(TOKEN_PREFIX, randomBytes(32), signingKey)
  const own = { id: newTokenId(nowMs), hint: keyHint(secret, TOKEN_PREFIX), createdBy: caller.actor }
  const planned = planToken(request, { ...own, keyPrefix, nowMs })
  if (!planned.ok) return { kind: 'invalid', field: planned.field, expected: planned.expected }
  const token = planned.value
  if (!mayGrant(principal, token)) return { kind: 'exceeds' }
  const about = { id: newAuditId(nowMs), atMs: nowMs, caller }
  const entry = auditAccess('token.issued', tokenDetail(token), about)
  const meanwhile = await runChange({ tokenId: token.id }, () =>
    runAudited(parts, async tx => {
      const response = idempotency === null ? null : { ...idempotency, outcome: JSON.stringify(token) }
      const repeated = response === null ? null : await insertResponse(tx, response, nowMs)
      if (repeated !== null) return repeated
      await insertToken(tx, { token, digest: digestKey(secret.reveal()) })
      await appendAudit(tx, [entry], database)
      return null
    }),
  )
  return meanwhile === null ? { kind: 'done', token, secret, replayed: false } : replay(meanwhile)
}

function replay(earlier: EarlierResponse): TokenResult {
  if (earlier.kind === 'other_request') return earlier
  // Only issueToken() above writes an outcome for this operation.
  const token = JSON.parse(earlier.outcome) as AdminToken
  return { kind: 'done', token, secret: null, replayed: true }
}

/** Leaves a revoked or expired token unchanged. A token of another workspace is rejected like an unknown one. */
async function revokeToken(
  parts: AdminTokenParts,
  principal: Principal,
  id: string,
  { caller }: OperationContext,
): Promise<TokenResult> {
  const { database, clock, newAuditId } = parts
  const token = await findVisible(database.writer, principal, id)
  if (token === null) return { kind: 'unknown_token' }
  const nowMs = clock.wallMs()
  const unchanged = { kind: 'done', token, secret: null, replayed: false } as const
  if (tokenProblem(token, nowMs) !== null) return unchanged
  const about = { id: newAuditId(nowMs), atMs: nowMs, caller }
  const entry = auditAccess('token.revoked', tokenDetail(token), about)
  const revoked = await runChange({ tokenId: id }, () =>
    runAudited(parts, async tx => {
      const isNew = await revokeTokenRow(tx, id, nowMs)
      // Within the transaction: what follows the commit must not fail.
      const after = await findToken(tx, 'id', id)
      if (isNew) await appendAudit(tx, [entry], database)
      return after
    }),
  )
  return { ...unchanged, token: revoked ?? token }
}

async function findVisible(
  reader: AuditedDatabase['reader'],
  principal: Principal,
  id: string,
): Promise<AdminToken | null> {
  const token = await findToken(reader, 'id', id)
  return token !== null && seesToken(principal, token) ? token : null
}

/** A token that reaches further than the principal would name workspaces that it may not see. */
function seesToken(principal: Principal, { workspaces }: AdminToken): boolean {
  return (workspaces ?? [null]).every(workspaceId => sees(principal, workspaceId))
}

function tokenDetail({ id, name, permissions, workspaces, expiresAtMs }: AdminToken) {
  return {
    tokenId: id,
    name,
    permissions,
    workspaces: workspaces ?? 'all',
    expiresAt: toInstant(expiresAtMs),
  }
}

async function identifyToken(
  parts: AdminTokenParts,
  recording: Set<string>,
  text: string,
): Promise<AdminToken | 'revoked' | 'expired' | null> {
  const { database, clock } = parts
  const format = { kind: 'signed', prefix: TOKEN_PREFIX, signingKeys: parts.signingKeys() } as const
  // A malformed or forged token costs no query.
  if (!hasKeyForm(text, format) || !hasKeyMac(text, format)) return null
  const token = await findToken(database.reader, 'digest', digestKey(text))
  if (token === null) return null
  const nowMs = clock.wallMs()
  const problem = tokenProblem(token, nowMs)
  if (problem !== null) return problem
  await recordUse(parts, recording, token, nowMs)
  return token
}

/** At most one write in flight for a token, also in a burst. A failed one is made up for by the next request. */
async function recordUse(
  { database, logger }: AdminTokenParts,
  recording: Set<string>,
  { id, lastUsedAtMs }: AdminToken,
  nowMs: number,
): Promise<void> {
  if ((lastUsedAtMs !== null && nowMs < lastUsedAtMs + ACCURACY_MS) || recording.has(id)) return
  recording.add(id)
  try {
    await recordTokenUse(database.writer, id, nowMs)
  } catch (error) {
    logger.warn({ tokenId: id, cause: describeError(error) }, 'use of an admin token not recorded')
  } finally {
    recording.delete(id)
  }
}

/** The record of a new token, or the first field that is wrong. */
function planToken(request: TokenRequest, context: TokenContext): Planned<AdminToken> {
  const { name } = request
  const expectedName = problemOfKeyName(name)
  if (expectedName !== null) return wrong('name', expectedName)
  if (holdsSecretForm(name, context.keyPrefix)) {
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

function areWorkspaces(workspaces: readonly string[]): boolean {
  return (
    workspaces.length >= 1 && workspaces.length <= MAX_TOKEN_WORKSPACES && workspaces.every(isWorkspaceId)
  )
}

/** Why a token is rejected; null if it is good. */
export function tokenProblem(token: AdminToken, nowMs: number): 'revoked' | 'expired' | null {
  if (token.revokedAtMs !== null) return 'revoked'
  return nowMs >= token.expiresAtMs ? 'expired' : null
}
