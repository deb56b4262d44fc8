import type { Permit } from './authorize.ts'

/** Why a request is not forwarded: the closed list. `refusal.ts` says what each looks like from outside. */
export type DenialReason =
  | 'malformed_request'
  | 'url_too_long'
  | 'headers_too_large'
  | 'request_timeout'
  | 'unknown_route'
  | 'method_not_allowed'
  | 'body_not_allowed'
  | 'key_missing'
  | 'key_invalid'
  | 'key_expired'
  | 'key_revoked'
  | 'key_store_unavailable'
  | 'other_workspace'
  | 'scope_missing'
  | 'invalid_query'
  | 'rate_limited'
  | 'overloaded'
  | 'upstream_busy'
  | 'draining'
  | 'upstream_error'
  | 'upstream_unavailable'
  | 'upstream_timeout'
  | 'upstream_not_found'
  | 'internal_error'

export interface Denial {
  readonly kind: 'denied'
  readonly reason: DenialReason
  /** Words of ours for the person who reads the answer; never what the client sent. */
  readonly detail?: string
  /** The scope that was missing, for the challenge. */
  readonly scope?: string
  /** Seconds, where waiting helps. */
  readonly retryAfterSeconds?: number
}

export type Verdict = { readonly kind: 'permitted'; readonly permit: Permit } | Denial

export function denied(reason: DenialReason, more: Omit<Denial, 'kind' | 'reason'> = {}): Denial {
  return { kind: 'denied', reason, ...more }
}
