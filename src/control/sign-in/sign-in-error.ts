import { AuthorizationResponseError, ResponseBodyError, WWWAuthenticateChallengeError } from 'openid-client'
import { causeOf } from '../../observability/control-logger.ts'
import type { LOGIN_OUTCOMES } from '../../observability/metrics.ts'

export type LoginOutcome = (typeof LOGIN_OUTCOMES)[number]
export type SignInProblem = Exclude<LoginOutcome, 'ok'>

/** Nobody was signed in. Its message is for the log: it says what did not fit, and repeats nothing that was sent. */
export class SignInError extends Error {
  readonly outcome: SignInProblem

  constructor(outcome: SignInProblem, message: string, options?: ErrorOptions) {
    super(message, options)
    this.outcome = outcome
  }
}

/** What the library found wrong; whatever is not an answer of the provider's is the provider not answering. */
const INVALID_CODE =
  /^OAUTH_(?!TIMEOUT|RESPONSE_IS_NOT_CONFORM|PARSE_ERROR|RESPONSE_IS_NOT_JSON|HTTP_REQUEST_FORBIDDEN|WWW_)/

/** What a provider may send people back with (RFC 6749, section 4.1.2.1) that is not about what they brought. */
const OF_THE_PROVIDER: ReadonlyMap<string, SignInProblem> = new Map([
  ['access_denied', 'denied'],
  ['server_error', 'unavailable'],
  ['temporarily_unavailable', 'unavailable'],
])

/** Before there is anything to check, whatever goes wrong is the provider's, or that of the settings that name it. */
export function providerIsAway(error: unknown): never {
  throw new SignInError('unavailable', `the provider cannot be asked what it is: ${reasonOf(error)}`, {
    cause: error,
  })
}

/** @throws SignInError */
export function explainProviderError(error: unknown): never {
  if (error instanceof SignInError) throw error
  if (error instanceof AuthorizationResponseError) {
    const outcome = OF_THE_PROVIDER.get(error.error) ?? 'invalid'
    throw new SignInError(outcome, `the provider sent them back with ${wordOf(error.error)}`)
  }
  if (error instanceof ResponseBodyError) {
    // invalid_grant is of this one code; anything else, such as invalid_client, is of the settings.
    const outcome = error.error === 'invalid_grant' ? 'invalid' : 'unavailable'
    throw new SignInError(outcome, `the provider refused the code: ${wordOf(error.error)}`)
  }
  if (error instanceof WWWAuthenticateChallengeError) {
    throw new SignInError('unavailable', 'the provider does not take console.oidc.clientId with its secret')
  }
  const code = codeOf(error)
  const outcome = INVALID_CODE.test(code) ? 'invalid' : 'unavailable'
  throw new SignInError(outcome, `${reasonOf(error)}${code === '' ? '' : ` (${code})`}`, { cause: error })
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
}

/** Of a wrapped error the innermost says most. */
function reasonOf(error: unknown): string {
  return error instanceof Error && error.cause instanceof Error ? reasonOf(error.cause) : causeOf(error)
}

/** An error of OAuth is a word; what is none of that may be anything, and is not logged. */
function wordOf(error: string): string {
  return /^[a-z_]{1,40}$/.test(error) ? error : 'an error of no known form'
}
