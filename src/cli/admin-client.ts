import { randomUUID } from 'node:crypto'
import { EXIT } from '../run/host.ts'
import { CliError } from './cli-error.ts'
import type { ConsoleAccess } from './console-access.ts'
import { plainText } from './plain-text.ts'

const DEADLINE_MS = 15_000
/** What a connection dies of that somebody in between, or the console as it stopped, has cut. */
const RESET_CODES = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])
/** Before a connection stands, nothing was asked. */
const NEVER_SENT: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nobody listens there',
  ENOTFOUND: 'its name is not known',
  EAI_AGAIN: 'its name could not be looked up',
  EHOSTUNREACH: 'there is no way to it',
  ENETUNREACH: 'there is no way to it',
  UND_ERR_CONNECT_TIMEOUT: 'no connection was made in time',
}
const CERTIFICATE_CODE = /CERT|SIGNATURE|ISSUER|ERR_TLS/

/** An answer of success. */
export interface AdminAnswer {
  /** The body as it came. */
  readonly text: string
  readonly json: unknown
}

/** The console gave no answer. */
export class NoAnswerError extends CliError {
  /** Whether it may have done all the same what it was asked. */
  readonly mayHaveHappened: boolean

  constructor(message: string, mayHaveHappened: boolean) {
    super(message, EXIT.unavailable)
    this.mayHaveHappened = mayHaveHappened
  }
}

export interface AdminCall {
  readonly method: 'GET' | 'POST'
  /** Below `/admin/v1`. */
  readonly path: string
  readonly body?: Readonly<Record<string, unknown>>
  /** Whether to do it twice would be a mistake: the console is then told which of two requests are one. */
  readonly once?: boolean
  readonly deadlineMs?: number
}

/** The admin API, as a program uses it. Whatever is not an answer of success is thrown, said in a sentence. */
export class AdminClient {
  readonly url: string
  readonly #token: string

  constructor({ url, token }: ConsoleAccess) {
    this.url = url
    this.#token = token
  }

  /**
   * One deadline over both tries. The second is safe: reading, revoking and writing records anew may be done twice, and
   * the idempotency key makes a second issue or rotation the first one's answer.
   */
  async ask(call: AdminCall): Promise<AdminAnswer> {
    const { deadlineMs = DEADLINE_MS } = call
    const signal = AbortSignal.timeout(deadlineMs)
    const request = this.#requestOf(call, signal)
    try {
      return await this.#send(call, request).catch(error => {
        if (!RESET_CODES.has(codeOf(error))) throw error
        return this.#send(call, request)
      })
    } catch (error) {
      if (error instanceof CliError) throw error
      throw this.#explain(error, signal.aborted ? deadlineMs : null)
    }
  }

  /** The answer is success, but not what this version understands. */
  notUnderstood(): CliError {
    const message = `The console at ${this.url} answered in a form that this version does not know: are both of one version?`
    return new CliError(message, EXIT.unavailable)
  }

  #requestOf({ method, body, once }: AdminCall, signal: AbortSignal): RequestInit {
    const headers: Record<string, string> = {
      accept: 'application/json',
      authorization: `Bearer ${this.#token}`,
    }
    if (once === true) headers['idempotency-key'] = randomUUID()
    if (body !== undefined) headers['content-type'] = 'application/json'
    // A redirect would carry the request to an address that nobody named.
    const request = { method, headers, signal, redirect: 'manual' as const }
    return body === undefined ? request : { ...request, body: JSON.stringify(body) }
  }

  async #send({ path }: AdminCall, request: RequestInit): Promise<AdminAnswer> {
    const response = await fetch(`${this.url}/admin/v1${path}`, request)
    const text = await response.text()
    const json = parseJson(text)
    if (response.ok && json !== undefined) return { text, json }
    throw this.#refusal(response.status, json)
  }

  #refusal(status: number, json: unknown): CliError {
    const said = refusalOf(json)
    if (said === null) {
      const message = `What answers at ${this.url} is no console of Postern (status ${status}): is --url or POSTERN_CONSOLE_URL right?`
      return new CliError(message, EXIT.unavailable)
    }
    const words = `${plainText(said.error)} (${status} ${plainText(said.code)})`
    if (status === 401) {
      const message = `The console at ${this.url} does not accept the admin token: ${words}. Is it that console’s own?`
      return new CliError(message, EXIT.forbidden)
    }
    if (status === 403) {
      return new CliError(`The console at ${this.url} does not allow this: ${words}`, EXIT.forbidden)
    }
    const unavailable = status >= 500 || status === 429
    return unavailable
      ? new CliError(
          `The console at ${this.url} could not do it: ${words}. Try again later`,
          EXIT.unavailable,
        )
      : new CliError(`The console at ${this.url} refused: ${words}`, EXIT.refused)
  }

  #explain(error: unknown, passedMs: number | null): NoAnswerError {
    const code = codeOf(error)
    const unsent = NEVER_SENT[code]
    if (passedMs !== null) {
      const message = `The console at ${this.url} did not answer within ${passedMs / 1000} seconds`
      return new NoAnswerError(message, true)
    }
    if (CERTIFICATE_CODE.test(code)) {
      const message = `The certificate of ${this.url} is not trusted (${code}): NODE_EXTRA_CA_CERTS may name its authority`
      return new NoAnswerError(message, false)
    }
    const why = unsent ?? `the connection failed (${code === '' ? causeOf(error) : code})`
    const message = `The console at ${this.url} cannot be reached: ${why}. Is it running, and the address right?`
    return new NoAnswerError(message, unsent === undefined)
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function refusalOf(json: unknown): { code: string; error: string } | null {
  if (typeof json !== 'object' || json === null || !('code' in json) || !('error' in json)) return null
  const { code, error } = json
  return typeof code === 'string' && typeof error === 'string' ? { code, error } : null
}

/** The innermost words there are. */
function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? error.message : causeOf(error.cause)
}

/** fetch hides what happened in the cause of its own error; of several addresses tried, in the first one's. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return ''
  if (error.cause !== undefined) return codeOf(error.cause)
  if (error instanceof AggregateError && !('code' in error)) return codeOf(error.errors[0])
  return 'code' in error ? String(error.code) : ''
}
