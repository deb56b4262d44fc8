import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { EXIT } from '../../run/host.ts'
import { CliError } from '../cli.ts'
import {
  DatabaseUnavailableError,
  fetchError,
  isConnectionReset,
  responseError,
  withIdempotencyKey,
} from './failures.ts'

const DEADLINE_MS = 15_000
/** Of a request that the console answers with 503: a database that fails over is back in seconds. */
const MAX_RETRIES = 2
const NDJSON = 'application/x-ndjson'

/** A successful response. */
export interface AdminResponse {
  /** The unparsed body. */
  readonly text: string
  readonly json: unknown
}

/** The address of the admin API, and its token. */
export interface ConsoleAccess {
  /** Without a trailing slash. */
  readonly url: string
  readonly token: string
}

export interface AdminRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH'
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
    const request = this.#createRequest(call, signal)
    try {
      return await this.#attempt(call, request, signal)
    } catch (error) {
      const explained =
        error instanceof CliError ? error : fetchError(this.url, error, signal.aborted ? deadlineMs : null)
      throw withIdempotencyKey(explained, new Headers(request.headers).get('idempotency-key'))
    }
  }

  /** An earlier attempt may have made the change, also if the last response does not mention it. */
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
          : call.method !== 'PATCH' && isConnectionReset(error) && retries === 0
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
      const response = await fetch(`${this.url}/admin/v1${path}`, this.#createRequest(call, silence.signal))
      // A sign-in page, too, answers with 200.
      const isExport = response.headers.get('content-type')?.startsWith(NDJSON) === true
      if (!response.ok || response.body === null || !isExport)
        throw responseError(this.url, response, parseJson(await response.text()))
      for await (const part of response.body) {
        clearTimeout(timer)
        yield part
        timer = begin()
      }
    } catch (error) {
      if (error instanceof CliError) throw error
      throw fetchError(this.url, error, silence.signal.aborted ? DEADLINE_MS : null)
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

  #createRequest({ method, body, once, version }: AdminRequest, signal: AbortSignal): RequestInit {
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
    throw responseError(this.url, response, json)
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
