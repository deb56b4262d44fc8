import { AuthorizationResponseError, ResponseBodyError, WWWAuthenticateChallengeError } from 'openid-client'
import { causeOf } from '../../observability/control-logger.ts'
import type { LOGIN_OUTCOMES } from '../../observability/metrics/metrics.ts'

export type LoginOutcome = (typeof LOGIN_OUTCOMES)[number]
export type SignInProblem = Exclude<LoginOutcome, 'ok'>

/** Signing in failed. The message is for the log; it never repeats what the browser sent. */
export class SignInError extends Error {
  readonly outcome: SignInProblem

  constructor(outcome: SignInProblem, message: string, options?: ErrorOptions) {
    super(message, options)
    this.outcome = outcome
  }
}

/** Codes of the libraries for an invalid response; all others mean that the provider is unavailable. */
const INVALID_CODE =
  /^(?:OAUTH_(?!TIMEOUT|RESPONSE_IS_NOT_CONFORM|PARSE_ERROR|RESPONSE_IS_NOT_JSON|HTTP_REQUEST_FORBIDDEN|WWW_)|ERR_JWS_|ERR_JWKS_(?:NO|MULTIPLE)_MATCHING|ERR_JOSE_(?:NOT_SUPPORTED|ALG_NOT_ALLOWED))/

/** Errors of RFC 6749, section 4.1.2.1, with an outcome other than `invalid`. */
const PROVIDER_ERRORS: ReadonlyMap<string, SignInProblem> = new Map([
  ['access_denied', 'denied'],
  ['server_error', 'unavailable'],
  ['temporarily_unavailable', 'unavailable'],
])

/** Before there is anything to validate, every failure is the provider's or that of its settings. */
export function throwProviderUnavailable(error: unknown): never {
  throw new SignInError('unavailable', `provider metadata unavailable: ${innermostCauseOf(error)}`, {
    cause: error,
  })
}

/** @throws SignInError */
export function explainProviderError(error: unknown): never {
  if (error instanceof SignInError) throw error
  if (error instanceof AuthorizationResponseError) {
    const outcome = PROVIDER_ERRORS.get(error.error) ?? 'invalid'
    throw new SignInError(outcome, `the provider returned ${errorCodeOf(error.error)}`)
  }
  if (error instanceof ResponseBodyError) {
    // invalid_grant concerns this code alone; others, such as invalid_client, concern the settings.
    const outcome = error.error === 'invalid_grant' ? 'invalid' : 'unavailable'
    throw new SignInError(
      outcome,
      `the provider rejected the authorization code: ${errorCodeOf(error.error)}`,
    )
  }
  if (error instanceof WWWAuthenticateChallengeError) {
    throw new SignInError('unavailable', 'the provider rejected console.oidc.clientId with its secret')
  }
  const code = codeOf(error)
  const outcome = INVALID_CODE.test(code) ? 'invalid' : 'unavailable'
  throw new SignInError(outcome, `${innermostCauseOf(error)}${code === '' ? '' : ` (${code})`}`, {
    cause: error,
  })
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
}

/** The innermost cause is the most specific. */
function innermostCauseOf(error: unknown): string {
  return error instanceof Error && error.cause instanceof Error
    ? innermostCauseOf(error.cause)
    : causeOf(error)
}

/** OAuth error codes are plain words; any other text is untrusted and not logged. */
function errorCodeOf(error: string): string {
  return /^[a-z_]{1,40}$/.test(error) ? error : 'an unrecognised error'
}
