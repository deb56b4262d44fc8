import { UNKNOWN_ROUTE_TEXT } from '../../domain/denial.ts'
import { EXIT } from '../../run/host.ts'
import { CliError, plainText } from '../cli.ts'

/** The connection was cut by a proxy, or by a console that stopped. The request may have been processed. */
const RESET_CODES = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])
/** Failures before a connection was established: the request was not sent. */
const NEVER_SENT: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ENOTFOUND: 'unknown host name',
  EAI_AGAIN: 'the host name lookup failed',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  UND_ERR_CONNECT_TIMEOUT: 'the connection timed out',
}
/** An https: address of a port without TLS. */
const NO_TLS_CODES = new Set(['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG'])
const NO_TLS = 'the server does not speak TLS; try an http: address'
const ID = /^(?:key|tok)_[0-9A-Z]{26}$/
const CERTIFICATE_CODE = /CERT|SIGNATURE|ISSUER|ERR_TLS/
const LONGEST_PAUSE_MS = 3_000
const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\b/i
const CHECK = 'check --url or POSTERN_CONSOLE_URL'
const LET_PASS = `Let the admin API pass there, or ${CHECK}`
const ASK_OPERATOR = `Ask its operator, or ${CHECK}`

/** The console did not respond. */
export class NoResponseError extends CliError {
  /** Whether the console may have processed the request all the same. */
  readonly mayHaveBeenProcessed: boolean

  constructor(message: string, mayHaveBeenProcessed: boolean, exitCode: number = EXIT.unavailable) {
    super(message, exitCode)
    this.mayHaveBeenProcessed = mayHaveBeenProcessed
  }
}

/** The database of the console is unavailable. */
export class DatabaseUnavailableError extends CliError {
  /** The key or token that may have been issued or changed all the same; null if nothing was. */
  readonly madeId: string | null
  readonly retryAfterMs: number

  constructor(message: string, madeId: string | null, retryAfterMs: number) {
    super(message, EXIT.unavailable)
    this.madeId = madeId
    this.retryAfterMs = retryAfterMs
  }
}

/** The console understood the request and rejected it. */
export class RejectedError extends CliError {
  /** @param code of the admin API */
  constructor(message: string, code: string) {
    super(message, EXIT.rejected, code)
  }
}

/** An answer of the server that is no success: an error of the admin API, or the answer of a proxy before the console. */
export function responseError(url: string, { status, headers }: Response, json: unknown): CliError {
  const said = status < 300 ? null : parsedError(json)
  if (said === null) return explainForeignAnswer(url, status, headers)
  const words = `${plainText(said.error)} (${status} ${plainText(said.code)}${requestIdNote(status, headers)})`
  if (said.code === 'unknown_path' || said.error === UNKNOWN_ROUTE_TEXT) {
    const message = `The server at ${url} has no admin API of this version: ${words}. Is it the address of a console, whose port is 8081 by default? If not, ${CHECK}`
    return new CliError(message, EXIT.unavailable, said.code)
  }
  if (status === 401) {
    const message = `The console at ${url} rejected the admin token: ${words}. Does the token belong to this console?`
    return new CliError(message, EXIT.forbidden)
  }
  if (status === 403) {
    return new CliError(`The console at ${url} does not allow this: ${words}`, EXIT.forbidden)
  }
  if (said.code === 'database_unavailable') {
    const message = `The console at ${url} could not do it: ${words}`
    return new DatabaseUnavailableError(message, said.madeId, readPauseMs(headers))
  }
  const unavailable = status >= 500 || status === 429
  return unavailable
    ? new CliError(`The console at ${url} could not do it: ${words}. Try again later`, EXIT.unavailable)
    : new RejectedError(`The console at ${url} refused: ${words}`, said.code)
}

/** By the request id the operator finds the cause of a failure of the console in its log. */
function requestIdNote(status: number, headers: Headers): string {
  const id = headers.get('x-request-id')
  return status < 500 || id === null ? '' : `, request id ${plainText(id)}`
}

/** Explains an answer that is not in the form of the admin API, most often that of a proxy before the console. */
function explainForeignAnswer(url: string, status: number, headers: Headers): NoResponseError {
  const cannot = `The console cannot be reached (${status} from ${url})`
  const signIn = `The server at ${url} is not a Postern console, or a proxy before it asks people to sign in`
  const foreign = (message: string, mayHaveReachedConsole = false) =>
    new NoResponseError(message, mayHaveReachedConsole)
  const type = headers.get('content-type') ?? 'no content type'
  if (status < 300 && JSON_TYPE.test(type)) {
    const message = `The response of the console at ${url} is incomplete: it is no valid JSON. Try again`
    return foreign(message, true)
  }
  if (status < 300) {
    const kind = plainText(type.split(';', 1)[0] ?? '')
    return foreign(`${signIn}: it answers with ${kind} in place of JSON. ${LET_PASS}`, true)
  }
  if (status < 400) {
    const to = describeRedirect(headers.get('location'), url)
    return foreign(`${signIn}: it redirects to ${to} (${status}). ${LET_PASS}`)
  }
  if (status >= 500) return foreign(`${cannot}: a proxy answers in its place. Try again later`, true)
  switch (status) {
    case 401:
    case 407:
      return foreign(`${cannot}: a proxy before it asks for credentials of its own. ${ASK_OPERATOR}`)
    case 403:
      return foreign(`${cannot}: a proxy before it does not let this request pass. ${ASK_OPERATOR}`)
    case 413:
      return foreign(`${cannot}: the request is too large for a proxy before it. ${ASK_OPERATOR}`)
    case 408:
    case 429: {
      const seconds = /^\d{1,5}$/.exec(headers.get('retry-after') ?? '')?.[0]
      const when = seconds === undefined ? 'later' : `in ${seconds} seconds`
      return foreign(`${cannot}: a proxy before it limits requests. Try again ${when}`)
    }
    default:
      return foreign(`The server at ${url} is not a Postern console (status ${status}): ${CHECK}`)
  }
}

/** Without the query, which may hold a token of the sign-in. */
function describeRedirect(location: string | null, url: string): string {
  const there = location === null ? null : URL.parse(location, url)
  if (there === null) return 'no valid address'
  return plainText(there.origin === 'null' ? there.protocol : there.origin + there.pathname)
}

/**
 * A request without an answer.
 * @param passedMs the deadline, if it passed
 */
export function fetchError(url: string, error: unknown, passedMs: number | null): NoResponseError {
  const code = innermostCode(error)
  const unsent = NEVER_SENT[code]
  if (passedMs !== null) {
    const message = `The console at ${url} did not respond within ${passedMs / 1000} seconds`
    return new NoResponseError(message, true)
  }
  if (CERTIFICATE_CODE.test(code)) {
    const message = `The certificate of ${url} is not trusted (${code}): set NODE_EXTRA_CA_CERTS to the file of its authority`
    return new NoResponseError(message, false)
  }
  const failed = `the connection failed (${code === '' ? innermostMessage(error) : code})`
  const why = unsent ?? (NO_TLS_CODES.has(code) ? NO_TLS : failed)
  const message = `The console at ${url} cannot be reached: ${why}. Check the address, and that the console is running`
  return new NoResponseError(message, unsent === undefined)
}

/** Ctrl-C before the response. */
export function interruptedError(url: string): NoResponseError {
  return new NoResponseError(`Interrupted before the console at ${url} responded`, true, EXIT.interrupted)
}

/** Whether an established connection was cut: a repeated request may succeed. */
export function isConnectionReset(error: unknown): boolean {
  return RESET_CODES.has(innermostCode(error))
}

function parsedError(json: unknown): { code: string; error: string; madeId: string | null } | null {
  if (typeof json !== 'object' || json === null || !('code' in json) || !('error' in json)) return null
  const { code, error } = json
  if (typeof code !== 'string' || typeof error !== 'string') return null
  const ids = ['keyId' in json ? json.keyId : null, 'tokenId' in json ? json.tokenId : null]
  const isId = (id: unknown): id is string => typeof id === 'string' && ID.test(id)
  return { code, error, madeId: ids.find(isId) ?? null }
}

/** The pause that the console asks for. */
function readPauseMs(headers: Headers): number {
  const seconds = Number(headers.get('retry-after') ?? 1)
  return Number.isFinite(seconds) ? Math.min(seconds * 1000, LONGEST_PAUSE_MS) : LONGEST_PAUSE_MS
}

/**
 * How the same command finds what was made, if it was.
 * @param more further options that make it the same request again
 */
export function withIdempotencyKey(error: CliError, key: string | null, more = ''): CliError {
  const isOpen =
    error instanceof DatabaseUnavailableError ||
    (error instanceof NoResponseError && error.mayHaveBeenProcessed)
  if (isOpen && key !== null)
    error.message += `. To repeat it safely within 24 hours, add --idempotency-key ${key}${more}`
  return error
}

/**
 * @param adviceOn what to do about a key or token of this id that may have been made
 * @param advice the same if its id is not known
 * @returns the error, with advice if something may have been made all the same
 */
export function adviseIfMade(error: unknown, adviceOn: (id: string) => string, advice: string): unknown {
  if (error instanceof DatabaseUnavailableError && error.madeId !== null) {
    return new CliError(`${error.message}. ${adviceOn(error.madeId)}`, error.exitCode)
  }
  if (!(error instanceof NoResponseError) || !error.mayHaveBeenProcessed) return error
  return new CliError(`${error.message}. ${advice}`, error.exitCode)
}

/** The message of the innermost cause. */
function innermostMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? error.message : innermostMessage(error.cause)
}

/** fetch wraps the error in a cause; if several addresses were tried, the first one's error counts. */
function innermostCode(error: unknown): string {
  if (!(error instanceof Error)) return ''
  if (error.cause !== undefined) return innermostCode(error.cause)
  if (error instanceof AggregateError && !('code' in error)) return innermostCode(error.errors[0])
  return 'code' in error ? String(error.code) : ''
}
