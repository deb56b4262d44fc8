import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { EXIT } from '../../run/host.ts'
import { CliError } from '../cli.ts'
import { plainText } from '../output/text.ts'
import type { ConsoleAccess } from './console-access.ts'
import { explainForeignAnswer } from './foreign-answer.ts'

const DEADLINE_MS = 15_000
/** Of a request that the console answers with 503: a database that fails over is back in seconds. */
const MAX_RETRIES = 2
const LONGEST_PAUSE_MS = 3_000
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
const NDJSON = 'application/x-ndjson'
const ID = /^(?:key|tok)_[0-9A-Z]{26}$/
const CERTIFICATE_CODE = /CERT|SIGNATURE|ISSUER|ERR_TLS/

/** A successful response. */
export interface AdminResponse {
  /** The unparsed body. */
  readonly text: string
  readonly json: unknown
}

/** The console did not respond. */
export class NoResponseError extends CliError {
  /** Whether the console may have processed the request all the same. */
  readonly mayHaveBeenProcessed: boolean

  constructor(message: string, mayHaveBeenProcessed: boolean) {
    super(message, EXIT.unavailable)
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
  /** Of the admin API. */
  readonly code: string

  constructor(message: string, code: string) {
    super(message, EXIT.rejected)
    this.code = code
  }
}

export interface AdminRequest {
  readonly method: 'GET' | 'POST' | 'PATCH'
  /** Below `/admin/v1`. */
  readonly path: string
  readonly body?: Readonly<Record<string, unknown>>
  /** Sends an idempotency key, so that a retry does not repeat the call; a text is that of an earlier command. */
  readonly once?: boolean | string
  /** The version that a PATCH changes, sent as If-Match. */
  readonly version?: number
  readonly deadlineMs?: number
}

/** A client of the admin API. Anything but success is thrown as an error whose message is for people. */
export class AdminClient {
  readonly url: string
  readonly #token: string

  constructor({ url, token }: ConsoleAccess) {
    this.url = url
    this.#token = token
  }

  /**
   * Retries once if the connection is reset, and while the database is unavailable what has an idempotency key; one deadline covers all
   * attempts. A retry is safe: reads, revocations and syncs may be repeated, and the idempotency key covers issuing and rotating. A PATCH is not repeated: had the first one arrived,
   * its own change would look like one by someone else.
   */
  async send(call: AdminRequest): Promise<AdminResponse> {
    const { deadlineMs = DEADLINE_MS } = call
    const signal = AbortSignal.timeout(deadlineMs)
    const request = this.#requestOf(call, signal)
    try {
      return await this.#attempt(call, request, signal)
    } catch (error) {
      const explained =
        error instanceof CliError ? error : this.#explain(error, signal.aborted ? deadlineMs : null)
      throw withIdempotencyKey(explained, new Headers(request.headers).get('idempotency-key'))
    }
  }

  /** What an earlier attempt may have made counts, also if the last one says nothing of it. */
  async #attempt(call: AdminRequest, request: RequestInit, signal: AbortSignal): Promise<AdminResponse> {
    let unconfirmed: DatabaseUnavailableError | null = null
    for (let retries = 0; ; retries++) {
      try {
        return await this.#fetch(call, request)
      } catch (error) {
        const isUnavailable = error instanceof DatabaseUnavailableError
        if (isUnavailable && error.madeId !== null) unconfirmed ??= error
        const mayRetry = isUnavailable
          ? call.once !== undefined && retries < MAX_RETRIES
          : call.method !== 'PATCH' && RESET_CODES.has(codeOf(error)) && retries === 0
        if (!mayRetry) throw unconfirmed ?? error
        if (!isUnavailable) continue
        await sleep(error.retryAfterMs, undefined, { signal }).catch(() => {
          throw unconfirmed ?? error
        })
      }
    }
  }

  /** The body of a GET, of any length, in parts. The response and each part must arrive in time. */
  async *download(path: string): AsyncGenerator<Uint8Array> {
    const silence = new AbortController()
    const begin = () => setTimeout(() => silence.abort(), DEADLINE_MS)
    let timer = begin()
    try {
      const call: AdminRequest = { method: 'GET', path }
      const response = await fetch(`${this.url}/admin/v1${path}`, this.#requestOf(call, silence.signal))
      // A sign-in page, too, answers with 200.
      const isExport = response.headers.get('content-type')?.startsWith(NDJSON) === true
      if (!response.ok || response.body === null || !isExport)
        throw this.#errorOf(response, parseJson(await response.text()))
      for await (const part of response.body) {
        clearTimeout(timer)
        yield part
        timer = begin()
      }
    } catch (error) {
      if (error instanceof CliError) throw error
      throw this.#explain(error, silence.signal.aborted ? DEADLINE_MS : null)
    } finally {
      clearTimeout(timer)
      // The consumer may have stopped early.
      silence.abort()
    }
  }

  /** For a successful response that this version does not understand. */
  notUnderstood(): CliError {
    const message = `The response of the console at ${this.url} is not understood: are console and command line of the same version?`
    return new CliError(message, EXIT.unavailable)
  }

  #requestOf({ method, body, once, version }: AdminRequest, signal: AbortSignal): RequestInit {
    const headers: Record<string, string> = {
      accept: 'application/json',
      authorization: `Bearer ${this.#token}`,
    }
    if (once !== undefined && once !== false) {
      headers['idempotency-key'] = typeof once === 'string' ? once : randomUUID()
    }
    if (version !== undefined) headers['if-match'] = `"${version}"`
    if (body !== undefined) headers['content-type'] = 'application/json'
    // A redirect could send the token to another server.
    const request = { method, headers, signal, redirect: 'manual' as const }
    return body === undefined ? request : { ...request, body: JSON.stringify(body) }
  }

  async #fetch({ path }: AdminRequest, request: RequestInit): Promise<AdminResponse> {
    const response = await fetch(`${this.url}/admin/v1${path}`, request)
    const text = await response.text()
    const json = parseJson(text)
    if (response.ok && json !== undefined) return { text, json }
    throw this.#errorOf(response, json)
  }

  #errorOf({ status, headers }: Response, json: unknown): CliError {
    const said = status < 300 ? null : parsedError(json)
    if (said === null) {
      const { message, mayHaveReachedConsole } = explainForeignAnswer(this.url, status, headers)
      return new NoResponseError(message, mayHaveReachedConsole)
    }
    const words = `${plainText(said.error)} (${status} ${plainText(said.code)})`
    if (status === 401) {
      const message = `The console at ${this.url} rejected the admin token: ${words}. Does the token belong to this console?`
      return new CliError(message, EXIT.forbidden)
    }
    if (status === 403) {
      return new CliError(`The console at ${this.url} does not allow this: ${words}`, EXIT.forbidden)
    }
    if (said.code === 'database_unavailable') {
      const message = `The console at ${this.url} could not do it: ${words}`
      return new DatabaseUnavailableError(message, said.madeId, pauseOf(headers))
    }
    const unavailable = status >= 500 || status === 429
    return unavailable
      ? new CliError(
          `The console at ${this.url} could not do it: ${words}. Try again later`,
          EXIT.unavailable,
        )
      : new RejectedError(`The console at ${this.url} refused: ${words}`, said.code)
  }

  #explain(error: unknown, passedMs: number | null): NoResponseError {
    const code = codeOf(error)
    const unsent = NEVER_SENT[code]
    if (passedMs !== null) {
      const message = `The console at ${this.url} did not respond within ${passedMs / 1000} seconds`
      return new NoResponseError(message, true)
    }
    if (CERTIFICATE_CODE.test(code)) {
      const message = `The certificate of ${this.url} is not trusted (${code}): set NODE_EXTRA_CA_CERTS to the file of its authority`
      return new NoResponseError(message, false)
    }
    const why = unsent ?? `the connection failed (${code === '' ? causeOf(error) : code})`
    const message = `The console at ${this.url} cannot be reached: ${why}. Check the address, and that the console is running`
    return new NoResponseError(message, unsent === undefined)
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
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
function pauseOf(headers: Headers): number {
  const seconds = Number(headers.get('retry-after') ?? 1)
  return Number.isFinite(seconds) ? Math.min(seconds * 1000, LONGEST_PAUSE_MS) : LONGEST_PAUSE_MS
}

/** How the same command finds what was made, if it was. */
function withIdempotencyKey(error: CliError, key: string | null): CliError {
  const isOpen =
    error instanceof DatabaseUnavailableError ||
    (error instanceof NoResponseError && error.mayHaveBeenProcessed)
  if (isOpen && key !== null)
    error.message += `. To repeat it safely within 24 hours, add --idempotency-key ${key}`
  return error
}

/** The message of the innermost cause. */
function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? error.message : causeOf(error.cause)
}

/** fetch wraps the error in a cause; if several addresses were tried, the first one's error counts. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return ''
  if (error.cause !== undefined) return codeOf(error.cause)
  if (error instanceof AggregateError && !('code' in error)) return codeOf(error.errors[0])
  return 'code' in error ? String(error.code) : ''
}
