import type { Denial, DenialReason } from '../domain/verdict.ts'

/** What a denial looks like from outside. */
export interface Refusal {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

interface Row {
  readonly status: number
  readonly code: string
  readonly text: string
  /** Parameters of the challenge after its realm (RFC 6750, section 3); '' for a bare one. */
  readonly challenge?: string
  readonly retryAfterSeconds?: number
  readonly headers?: Readonly<Record<string, string>>
}

/** The only 404: that another workspace, an unknown path and the upstream's own 404 share it is the point. */
const NOT_FOUND: Row = { status: 404, code: 'not_found', text: 'There is no such resource' }

/** The one table: reason, status, code, public text. A text never holds what the client sent. */
const TABLE: Readonly<Record<DenialReason, Row>> = {
  malformed_request: { status: 400, code: 'invalid_request', text: 'The request is malformed' },
  url_too_long: { status: 414, code: 'request_too_large', text: 'The URL is longer than 8 KiB' },
  headers_too_large: {
    status: 431,
    code: 'request_too_large',
    text: 'The headers are larger than 16 KiB or more than 100',
  },
  request_timeout: {
    status: 408,
    code: 'invalid_request',
    text: 'The request was not received in time',
  },
  unknown_route: NOT_FOUND,
  other_workspace: NOT_FOUND,
  upstream_not_found: NOT_FOUND,
  method_not_allowed: {
    status: 405,
    code: 'method_not_allowed',
    text: 'Only GET is allowed here',
    headers: { allow: 'GET' },
  },
  body_not_allowed: { status: 400, code: 'invalid_request', text: 'A GET request must not have a body' },
  invalid_query: { status: 400, code: 'invalid_request', text: 'A query parameter is not valid' },
  key_missing: {
    status: 401,
    code: 'key_missing',
    text: 'Send one API key, as "Authorization: Bearer <key>"',
    challenge: '',
  },
  key_invalid: invalidToken('key_invalid', 'The API key is not valid'),
  key_expired: invalidToken('key_expired', 'The API key has expired'),
  key_revoked: invalidToken('key_revoked', 'The API key has been revoked'),
  scope_missing: {
    status: 403,
    code: 'scope_missing',
    text: 'The API key lacks the scope that this endpoint needs',
    challenge: ', error="insufficient_scope"',
  },
  rate_limited: { status: 429, code: 'rate_limited', text: 'Too many requests', retryAfterSeconds: 1 },
  key_store_unavailable: {
    status: 503,
    code: 'key_store_unavailable',
    text: 'The API key cannot be verified at the moment',
    retryAfterSeconds: 1,
  },
  overloaded: overloaded('Too many requests are in flight'),
  upstream_busy: overloaded('Too many requests wait for the service behind'),
  draining: overloaded('This server is about to stop: send the request again on a new connection'),
  upstream_error: { status: 502, code: 'upstream_error', text: 'The service behind gave no usable answer' },
  upstream_unavailable: {
    status: 503,
    code: 'upstream_unavailable',
    text: 'The service behind is not available at the moment',
    retryAfterSeconds: 1,
  },
  upstream_timeout: {
    status: 504,
    code: 'upstream_timeout',
    text: 'The service behind did not answer in time',
  },
  internal_error: { status: 500, code: 'internal_error', text: 'Something went wrong here' },
}

/** Reasons after which the rest of the connection can no longer be trusted to be a request. */
const CLOSING: ReadonlySet<DenialReason> = new Set([
  'malformed_request',
  'url_too_long',
  'headers_too_large',
  'request_timeout',
  'body_not_allowed',
  'draining',
])

export function closesConnection(reason: DenialReason): boolean {
  return CLOSING.has(reason)
}

/** Answers that say nothing of the single request are made once. */
const FIXED = new Map<DenialReason, Refusal>()

export function refusalOf(denial: Denial): Refusal {
  const { reason, detail, scope, retryAfterSeconds } = denial
  if (detail !== undefined || scope !== undefined || retryAfterSeconds !== undefined) return build(denial)
  let refusal = FIXED.get(reason)
  if (refusal === undefined) {
    refusal = build(denial)
    FIXED.set(reason, refusal)
  }
  return refusal
}

function build({ reason, detail, scope, retryAfterSeconds }: Denial): Refusal {
  const row = TABLE[reason]
  const wait = retryAfterSeconds ?? row.retryAfterSeconds
  const scopeParameter = scope === undefined ? '' : `, scope="${scope}"`
  const body = JSON.stringify({ code: row.code, error: detail ?? row.text })
  return {
    status: row.status,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...row.headers,
      ...(row.challenge === undefined
        ? {}
        : { 'www-authenticate': `Bearer realm="postern"${row.challenge}${scopeParameter}` }),
      ...(wait === undefined ? {} : { 'retry-after': String(wait) }),
    },
    body,
  }
}

function invalidToken(code: string, text: string): Row {
  return { status: 401, code, text, challenge: `, error="invalid_token", error_description="${text}"` }
}

function overloaded(text: string): Row {
  return { status: 503, code: 'overloaded', text, retryAfterSeconds: 1 }
}
