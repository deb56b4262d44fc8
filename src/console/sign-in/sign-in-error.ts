import { AuthorizationResponseError, ResponseBodyError, WWWAuthenticateChallengeError } from 'openid-client'
import { errorCode } from '../../domain/errors.ts'
import { describeError } from '../../observability/control-logger.ts'
import type { LOGIN_OUTCOMES } from '../../observability/metrics/metrics.ts'

type LoginOutcome = (typeof LOGIN_OUTCOMES)[number]
/** What the sign-in page explains; counted as an outcome. */
export type SignInProblem = Exclude<LoginOutcome, 'ok'> | 'client_rejected'

/** Signing in failed. The message is for the log; it never repeats what the browser sent. */
export class SignInError extends Error {
  readonly problem: SignInProblem

  constructor(problem: SignInProblem, message: string, options?: ErrorOptions) {
    super(message, options)
    this.problem = problem
  }

  get outcome(): LoginOutcome {
    return this.problem === 'client_rejected' ? 'unavailable' : this.problem
  }
}

/** Codes of the libraries for an invalid response; all others mean that the provider is unavailable. */
const INVALID_CODE =
  /^(?:OAUTH_(?!TIMEOUT|RESPONSE_IS_NOT_CONFORM|PARSE_ERROR|RESPONSE_IS_NOT_JSON|HTTP_REQUEST_FORBIDDEN|WWW_)|ERR_JWS_|ERR_JWKS_(?:NO|MULTIPLE)_MATCHING|ERR_JOSE_(?:NOT_SUPPORTED|ALG_NOT_ALLOWED))/

const CLIENT_REJECTED =
  "the provider rejected the client's credentials: check console.oidc.clientId, clientSecret and tokenEndpointAuthMethod"

/** Errors of RFC 6749, section 4.1.2.1, and of Entra before it asks the person, with an outcome other than `invalid`. */
const PROVIDER_ERRORS: ReadonlyMap<string, SignInProblem> = new Map([
  ['access_denied', 'denied'],
  ['server_error', 'unavailable'],
  ['temporarily_unavailable', 'unavailable'],
  ['invalid_client', 'client_rejected'],
  ['unauthorized_client', 'client_rejected'],
])

/** Before there is anything to validate, every failure is the provider's or that of its settings. */
export function throwProviderUnavailable(error: unknown): never {
  throw new SignInError('unavailable', `provider metadata unavailable: ${describeInnermostCause(error)}`, {
    cause: error,
  })
}

/** @throws SignInError */
export function explainProviderError(error: unknown): never {
  if (error instanceof SignInError) throw error
  if (error instanceof AuthorizationResponseError) {
    const outcome = PROVIDER_ERRORS.get(error.error) ?? 'invalid'
    if (outcome === 'client_rejected') throw new SignInError(outcome, CLIENT_REJECTED)
    throw new SignInError(outcome, `the provider returned ${plainErrorCode(error.error)}`)
  }
  if (rejectsClient(error)) throw new SignInError('client_rejected', CLIENT_REJECTED)
  if (error instanceof ResponseBodyError) {
    // invalid_grant concerns this code alone; others concern the settings.
    const outcome = error.error === 'invalid_grant' ? 'invalid' : 'unavailable'
    throw new SignInError(
      outcome,
      `the provider rejected the authorization code: ${plainErrorCode(error.error)}`,
    )
  }
  const code = errorCode(error) ?? ''
  const outcome = INVALID_CODE.test(code) ? 'invalid' : 'unavailable'
  throw new SignInError(outcome, `${describeInnermostCause(error)}${code === '' ? '' : ` (${code})`}`, {
    cause: error,
  })
}

/** @throws SignInError for the request to the userinfo endpoint, which has the access token and no secret */
export function explainUserInfoError(error: unknown): never {
  if (error instanceof WWWAuthenticateChallengeError) {
    throw new SignInError('unavailable', 'the userinfo endpoint rejected the access token of the provider')
  }
  throw error
}

/** RFC 6749, section 5.2, and 401 with other codes: Keycloak sends unauthorized_client, Auth0 access_denied. */
function rejectsClient(error: unknown): boolean {
  if (error instanceof WWWAuthenticateChallengeError) return true
  if (error instanceof ResponseBodyError) return error.error === 'invalid_client' || error.status === 401
  return responseStatus(error) === 401
}

/** Of a response without an OAuth error, which the library keeps as the cause. */
function responseStatus(error: unknown): unknown {
  if (!(error instanceof Error) || typeof error.cause !== 'object' || error.cause === null) return undefined
  return error.cause instanceof Error ? responseStatus(error.cause) : Reflect.get(error.cause, 'status')
}

/** The innermost cause is the most specific. */
function describeInnermostCause(error: unknown): string {
  return error instanceof Error && error.cause instanceof Error
    ? describeInnermostCause(error.cause)
    : describeError(error)
}

/** OAuth error codes are plain words; any other text is untrusted and not logged. */
function plainErrorCode(error: string): string {
  return /^[a-z_]{1,40}$/.test(error) ? error : 'an unrecognised error'
}
