/** Who caused a denial: `gateway` counts against the gateway's objective, `upstream` only against the end-to-end one. */
type Responsible = 'client' | 'gateway' | 'upstream'

export interface DenialRow {
  readonly status: number
  /** The public `code` (contract, section 2). */
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
export const NOT_FOUND = { status: 404, code: 'not_found', text: 'There is no such resource' } as const

export const OVERLOADED = {
  status: 503,
  code: 'overloaded',
  retryAfterSeconds: 1,
  responsible: 'gateway',
} as const

export const NOT_VERIFIED = {
  status: 503,
  code: 'key_store_unavailable',
  text: 'The API key cannot be verified at the moment',
  retryAfterSeconds: 1,
} as const

export const KEY_INVALID = invalidToken('key_invalid', 'The API key is not valid')

export function invalidToken(code: string, text: string) {
  return { status: 401, code, text, challenge: `, error="invalid_token", error_description="${text}"` }
}
