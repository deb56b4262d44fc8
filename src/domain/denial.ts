/** Who caused a denial: `gateway` counts against the gateway's objective, `upstream` only against the end-to-end one. */
type Responsible = 'client' | 'gateway' | 'upstream'

interface DenialRow {
  readonly status: number
  /** The public `code`: docs/integrators.md. */
  readonly code: string
  /** The public `error`. It never contains input of the client. */
  readonly text: string
  readonly responsible: Responsible
  /**
   * The metric that counts this reason: `rejected` before the check of the credential (`postern_http_rejected_total`),
   * `decision` afterwards (`postern_auth_decisions_total`), `none` if the upstream metrics count it.
   */
  readonly countedAs: 'rejected' | 'decision' | 'none'
  /** Parameters of the challenge after its realm (RFC 6750, section 3); '' for a bare one. */
  readonly challenge?: string
  readonly retryAfterSeconds?: number
  readonly headers?: Readonly<Record<string, string>>
  /** The bytes that follow on the connection may not be a request, or the gateway wants no further request. */
  readonly closesConnection?: true
  /** Answered later under overload, so that clients that ignore `Retry-After` cannot starve others. */
  readonly delayedUnderOverload?: true
}

/** The only 404: clients must not be able to distinguish an unknown path, another workspace and the upstream's own 404. */
const NOT_FOUND = { status: 404, code: 'not_found', text: 'There is no such resource' } as const

const OVERLOADED = {
  status: 503,
  code: 'overloaded',
  retryAfterSeconds: 1,
  responsible: 'gateway',
} as const

const NOT_VERIFIED = {
  status: 503,
  code: 'key_store_unavailable',
  text: 'The API key cannot be verified at the moment',
  retryAfterSeconds: 1,
} as const

export const KEY_INVALID = invalidToken('key_invalid', 'The API key is not valid')

function invalidToken<Code extends string>(code: Code, text: string) {
  const challenge = `, error="invalid_token", error_description="${text}"`
  return { status: 401, code, text, challenge } as const
}

/** All properties of each denial reason. A new reason is one row here. */
const DENIALS = {
  malformed_request: {
    status: 400,
    code: 'invalid_request',
    text: 'The request is not valid HTTP/1.1',
    responsible: 'client',
    countedAs: 'rejected',
    closesConnection: true,
  },
  url_too_long: {
    status: 414,
    code: 'request_too_large',
    text: 'The URL is longer than 8 KiB',
    responsible: 'client',
    countedAs: 'rejected',
    closesConnection: true,
  },
  headers_too_large: {
    status: 431,
    code: 'request_too_large',
    text: 'The headers are larger than 16 KiB or more than 100',
    responsible: 'client',
    countedAs: 'rejected',
    closesConnection: true,
  },
  request_timeout: {
    status: 408,
    code: 'invalid_request',
    text: 'The request was not received in time',
    responsible: 'client',
    countedAs: 'rejected',
    closesConnection: true,
  },
  expectation_failed: {
    status: 417,
    code: 'invalid_request',
    text: 'The Expect field is not supported, other than 100-continue',
    responsible: 'client',
    countedAs: 'rejected',
    closesConnection: true,
  },
  unknown_route: { ...NOT_FOUND, responsible: 'client', countedAs: 'rejected' },
  method_not_allowed: {
    status: 405,
    code: 'method_not_allowed',
    text: 'Only GET is allowed here',
    headers: { allow: 'GET' },
    responsible: 'client',
    countedAs: 'rejected',
  },
  body_not_allowed: {
    status: 400,
    code: 'invalid_request',
    text: 'A GET request must not have a body',
    responsible: 'client',
    countedAs: 'rejected',
    closesConnection: true,
  },
  key_missing: {
    status: 401,
    code: 'key_missing',
    text: 'Send one API key, as "Authorization: Bearer <key>"',
    challenge: '',
    responsible: 'client',
    countedAs: 'decision',
  },
  /** The form or MAC is wrong; there was no lookup. Clients get the same response as for an unknown key. */
  key_malformed: { ...KEY_INVALID, responsible: 'client', countedAs: 'decision' },
  key_invalid: { ...KEY_INVALID, responsible: 'client', countedAs: 'decision' },
  key_expired: {
    ...invalidToken('key_expired', 'The API key has expired'),
    responsible: 'client',
    countedAs: 'decision',
  },
  key_revoked: {
    ...invalidToken('key_revoked', 'The API key has been revoked'),
    responsible: 'client',
    countedAs: 'decision',
  },
  key_suspended: {
    ...invalidToken('key_suspended', 'The API key is suspended'),
    responsible: 'client',
    countedAs: 'decision',
  },
  key_store_unavailable: { ...NOT_VERIFIED, responsible: 'gateway', countedAs: 'decision' },
  /** Too many unknown keys without a MAC (`keys.unsignedLookups`): this one was not looked up. */
  lookup_limited: {
    ...NOT_VERIFIED,
    responsible: 'client',
    countedAs: 'decision',
    delayedUnderOverload: true,
  },
  /** The text names the address: that of the connection, or what a trusted proxy says. */
  address_not_allowed: {
    status: 403,
    code: 'address_not_allowed',
    text: 'The API key must not be used from this address',
    responsible: 'client',
    countedAs: 'decision',
  },
  other_workspace: { ...NOT_FOUND, responsible: 'client', countedAs: 'decision' },
  scope_missing: {
    status: 403,
    code: 'scope_missing',
    text: 'The API key lacks a scope',
    challenge: ', error="insufficient_scope"',
    responsible: 'client',
    countedAs: 'decision',
  },
  invalid_query: {
    status: 400,
    code: 'invalid_request',
    text: 'A query parameter is not valid',
    responsible: 'client',
    countedAs: 'decision',
  },
  rate_limited: {
    status: 429,
    code: 'rate_limited',
    text: 'Too many requests',
    retryAfterSeconds: 1,
    responsible: 'client',
    countedAs: 'decision',
  },
  overloaded: {
    ...OVERLOADED,
    text: 'Too many requests are in flight',
    countedAs: 'rejected',
    delayedUnderOverload: true,
  },
  /** The gateway's queue is full, or the request waited in it too long. The upstream is slow, but did not fail it. */
  upstream_queue_full: {
    ...OVERLOADED,
    text: 'Too many requests are waiting for the upstream',
    countedAs: 'rejected',
    delayedUnderOverload: true,
  },
  /** The workspace holds more than its fair share of the capacity, and other workspaces need it. */
  workspace_overloaded: {
    ...OVERLOADED,
    text: 'Too many requests of this workspace are in flight',
    responsible: 'client',
    countedAs: 'rejected',
    delayedUnderOverload: true,
  },
  draining: {
    ...OVERLOADED,
    text: 'This server is shutting down: send the request again on a new connection',
    countedAs: 'rejected',
    closesConnection: true,
  },
  upstream_error: {
    status: 502,
    code: 'upstream_error',
    text: 'The upstream returned an invalid response',
    responsible: 'upstream',
    countedAs: 'none',
  },
  upstream_unavailable: {
    status: 503,
    code: 'upstream_unavailable',
    text: 'The upstream is not available at the moment',
    retryAfterSeconds: 1,
    responsible: 'upstream',
    countedAs: 'none',
  },
  upstream_timeout: {
    status: 504,
    code: 'upstream_timeout',
    text: 'The upstream did not respond in time',
    responsible: 'upstream',
    countedAs: 'none',
  },
  upstream_not_found: { ...NOT_FOUND, responsible: 'upstream', countedAs: 'none' },
  internal_error: {
    status: 500,
    code: 'internal_error',
    text: 'Internal gateway error',
    responsible: 'gateway',
    countedAs: 'none',
    closesConnection: true,
  },
} as const satisfies Record<string, DenialRow>

/** Why the gateway rejected a request. Logs, traces and metrics use these names. */
export type DenialReason = keyof typeof DENIALS

/** What clients can get, as `404 not_found`. */
export type PublicError = ErrorOf<(typeof DENIALS)[DenialReason]>
type ErrorOf<Row> = Row extends { status: infer Status extends number; code: infer Code extends string }
  ? `${Status} ${Code}`
  : never

export const DENIAL_REASONS: readonly DenialReason[] = listReasons(DENIALS)

export function denialRow(reason: DenialReason): DenialRow {
  return DENIALS[reason]
}

/** A gateway answers so for each path that it does not know, and so reveals itself to a caller that took it for another server. */
export const UNKNOWN_ROUTE_TEXT = denialRow('unknown_route').text

export interface Denial {
  readonly kind: 'denied'
  readonly reason: DenialReason
  /** Explanation for the developer of the client; never contains input of the client. */
  readonly detail?: string
  /** The missing scope, for the challenge. */
  readonly scope?: string
  readonly retryAfterSeconds?: number
}

export function denied(reason: DenialReason, more: Omit<Denial, 'kind' | 'reason'> = {}): Denial {
  return { kind: 'denied', reason, ...more }
}

function listReasons<Reason extends string>(rows: Record<Reason, DenialRow>): Reason[] {
  // `Object.keys` forgets the type of a closed record's keys.
  return Object.keys(rows) as Reason[]
}
