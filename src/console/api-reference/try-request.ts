import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'
import replyFrom from '@fastify/reply-from'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { plainPasted } from '../../domain/form/text.ts'
import { isWorkspaceId, WORKSPACE_ID_EXPECTED } from '../../domain/key/key-record.ts'
import { holdsKeyForm } from '../../domain/key/secret.ts'
import type { ProxySettings } from '../../domain/proxy.ts'
import { type RouteConfig, WORKSPACE_PARAMETER } from '../../domain/route/route.ts'
import { OutgoingClient } from '../../outgoing/outgoing-client.ts'
import { type FormFields, textField } from '../platform/html/form-parts.ts'
import { secondsToWait } from '../platform/http/authenticate-programs.ts'

/** The characters of a bearer token (RFC 6750, section 2.1). */
const TOKEN = /^[A-Za-z0-9._~+/-]{1,512}=*$/
const PARAMETER = /\{([^{}]+)\}/g
const MAX_VALUE_LENGTH = 512

/** A request to the API. */
interface PreparedRequest {
  /** The route's path with its parameters filled in. */
  readonly path: string
  /** Without its question mark. */
  readonly query: string
  readonly key: string
}

type Preparation =
  | { readonly ok: true; readonly request: PreparedRequest }
  /** What the person has to do. */
  | { readonly ok: false; readonly problem: string }

/** The name of the field with the value of a parameter. */
export function fieldOf(route: string, parameter: string): string {
  return `${route}.${parameter}`
}

interface RequestPlace {
  readonly route: RouteConfig
  readonly workspaceId: string
  readonly keyPrefix: string
}

/**
 * Builds the request from the configured route, the workspace of the page and the values of its parameters. The gateway checks
 * the values of the query: its response to a wrong one is what a person wants to see.
 */
export function prepareRequest(
  { route, workspaceId, keyPrefix }: RequestPlace,
  fields: FormFields,
): Preparation {
  const key = plainPasted(textField(fields, 'key'))
  if (key === '') return { ok: false, problem: 'Paste a key above first.' }
  if (!TOKEN.test(key)) return { ok: false, problem: 'The pasted text is no key: it has other characters.' }
  const textOf = (name: string) =>
    name === WORKSPACE_PARAMETER ? workspaceId : textField(fields, fieldOf(route.name, name)).trim()
  const names = [...route.path.matchAll(PARAMETER)].map(([, name = '']) => name)
  const misplaced = [...names, ...Object.keys(route.query ?? {})].find(name =>
    holdsKeyForm(textOf(name), keyPrefix),
  )
  if (misplaced !== undefined)
    return { ok: false, problem: `Paste the key into its own field, not into ${misplaced}.` }
  for (const name of names) {
    if (textOf(name) === '') return { ok: false, problem: `Enter a value for ${name}.` }
    if (!isWorkspaceId(textOf(name)))
      return { ok: false, problem: `${name} must be ${WORKSPACE_ID_EXPECTED}` }
  }
  const path = route.path.replace(PARAMETER, (_, name: string) => textOf(name))
  const query = new URLSearchParams()
  for (const name of Object.keys(route.query ?? {})) {
    const value = textOf(name).slice(0, MAX_VALUE_LENGTH)
    if (value !== '') query.set(name, value)
  }
  return { ok: true, request: { path, query: query.toString(), key } }
}

/** For the whole response. */
const TIMEOUT_MS = 10_000
/** Of the body, that are read and shown. */
const MAX_BODY_BYTES = 64 * 1024
/** At each console, so that a slow API takes few connections of it. */
const MAX_IN_FLIGHT = 10
const MAX_IN_FLIGHT_OF_PERSON = 2
const MINUTE_SECONDS = 60
const MIN_HIDDEN = 16
/** Of a connection alone, or never for people to read. */
const LEFT_OUT = new Set(['connection', 'keep-alive', 'transfer-encoding', 'set-cookie'])

export type TriedOutcome =
  | {
      readonly kind: 'answered'
      readonly status: number
      readonly headers: readonly (readonly [name: string, value: string])[]
      /** As text; null where it is encoded. */
      readonly body: string | null
      /** Whether the body is longer than what is shown. */
      readonly isCut: boolean
      readonly durationMs: number
    }
  /** The API gave no whole response. */
  | { readonly kind: 'failed'; readonly text: string }
  /** @property waitSeconds after which the person may send another one; null if waiting is not what is missing */
  | { readonly kind: 'not_sent'; readonly text: string; readonly waitSeconds: number | null }

interface TryingParts {
  /** Of the API, without a slash at its end. */
  readonly gatewayUrl: string
  /** Requests of one person, at this console. */
  readonly perMinute: number
  readonly proxies: ProxySettings
  /** Receives why the API gave no response. */
  readonly onFailure: (cause: unknown) => void
}

/**
 * Forwards requests that people try to the API: GET of configured routes, with the pasted key and no field of the browser. Nothing
 * of a response becomes a part of the console's own: pages show it as text.
 */
export class RequestTrial {
  readonly #parts: TryingParts
  readonly #limiter: RateLimiterMemory
  readonly #client: OutgoingClient
  readonly #inFlight = new Map<string, number>()

  constructor(parts: TryingParts) {
    this.#parts = parts
    this.#limiter = new RateLimiterMemory({ points: parts.perMinute, duration: MINUTE_SECONDS })
    this.#client = new OutgoingClient({ proxies: parts.proxies, connectTimeoutMs: TIMEOUT_MS })
  }

  /** Call it on the scope of the route that sends. */
  async register(scope: FastifyInstance): Promise<void> {
    const base = new URL(this.#parts.gatewayUrl).origin
    await scope.register(replyFrom, {
      base,
      undici: this.#client.dispatcher,
      disableCache: true,
      disableRequestLogging: true,
    })
  }

  /** Sends one request for a person. The reply is still the caller's to send. */
  async send(subject: string, prepared: PreparedRequest, reply: FastifyReply): Promise<TriedOutcome> {
    if (!this.#mayEnter(subject))
      return notSent('Other requests are still waiting for the API. Try again in a moment.')
    this.#inFlight.set(subject, (this.#inFlight.get(subject) ?? 0) + 1)
    try {
      const wait = await secondsToWait(this.#limiter, subject)
      if (wait > 0) {
        const { perMinute } = this.#parts
        return {
          ...notSent(`You have sent ${perMinute} requests within a minute. Wait ${wait} seconds.`),
          waitSeconds: wait,
        }
      }
      return await this.#forward(prepared, reply)
    } finally {
      const left = (this.#inFlight.get(subject) ?? 1) - 1
      if (left === 0) this.#inFlight.delete(subject)
      else this.#inFlight.set(subject, left)
    }
  }

  stop(): Promise<void> {
    return this.#client.stop()
  }

  #mayEnter(subject: string): boolean {
    const all = [...this.#inFlight.values()].reduce((sum, count) => sum + count, 0)
    return all < MAX_IN_FLIGHT && (this.#inFlight.get(subject) ?? 0) < MAX_IN_FLIGHT_OF_PERSON
  }

  async #forward(prepared: PreparedRequest, reply: FastifyReply): Promise<TriedOutcome> {
    const startedMs = performance.now()
    const deadline = AbortSignal.timeout(TIMEOUT_MS)
    try {
      const response = await this.#fetch(prepared, reply, deadline)
      const { text, isCut } = await readText(response.stream, deadline)
      const encoding = response.headers['content-encoding'] ?? 'identity'
      const hide = (shown: string) => hideKey(shown, prepared.key)
      return {
        kind: 'answered',
        status: response.status,
        headers: listHeaders(response.headers).map(([name, value]) => [name, hide(value)] as const),
        body: encoding === 'identity' ? hide(text) : null,
        isCut,
        durationMs: Math.round(performance.now() - startedMs),
      }
    } catch (error) {
      this.#parts.onFailure(error)
      const text = deadline.aborted
        ? `The API did not respond within ${TIMEOUT_MS / 1000} seconds.`
        : 'The console could not reach the API, or the connection broke. The console’s log names the cause.'
      return { kind: 'failed', text }
    }
  }

  #fetch(
    { path, query, key }: PreparedRequest,
    reply: FastifyReply,
    deadline: AbortSignal,
  ): Promise<Received> {
    const { promise, resolve, reject } = Promise.withResolvers<Received>()
    let headers: IncomingHttpHeaders = {}
    deadline.addEventListener('abort', () => reject(deadline.reason))
    // After the client has disconnected, reply-from calls nothing more.
    reply.raw.once('close', () => reject(new Error('The client disconnected')))
    reply.from(new URL(this.#parts.gatewayUrl).pathname.replace(/\/$/, '') + path, {
      method: 'GET',
      body: null,
      queryString: () => query,
      timeout: TIMEOUT_MS,
      // It repeats a GET that got 503 ten times.
      retryDelay: () => null,
      rewriteRequestHeaders: () => ({
        accept: 'application/json',
        'accept-encoding': 'identity',
        'user-agent': 'postern-console',
        authorization: `Bearer ${key}`,
      }),
      rewriteHeaders: received => {
        headers = received
        return {}
      },
      onResponse: (_request, _reply, { statusCode: status, stream }) => {
        if (deadline.aborted) stream.destroy()
        else resolve({ status, headers, stream })
      },
      onError: (_reply, { error }) => reject(error.cause ?? error),
    })
    return promise
  }
}

interface Received {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly stream: Readable
}

/** An API can repeat what it receives. A short text is no key, and would be hidden in words. */
function hideKey(text: string, key: string): string {
  return key.length < MIN_HIDDEN ? text : text.replaceAll(key, '…')
}

function notSent(text: string): Extract<TriedOutcome, { kind: 'not_sent' }> {
  return { kind: 'not_sent', text, waitSeconds: null }
}

/** Reads up to the bound, and then ends the response. */
async function readText(stream: Readable, deadline: AbortSignal): Promise<{ text: string; isCut: boolean }> {
  // A stream that ends early has an error, also where the loop below has left it.
  stream.on('error', () => {})
  deadline.addEventListener('abort', () => stream.destroy(deadline.reason))
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stream) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > MAX_BODY_BYTES) break
  }
  const text = new TextDecoder().decode(Buffer.concat(chunks).subarray(0, MAX_BODY_BYTES))
  return { text, isCut: bytes > MAX_BODY_BYTES }
}

function listHeaders(headers: IncomingHttpHeaders): (readonly [string, string])[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    value === undefined || LEFT_OUT.has(name) ? [] : [[name, [value].flat().join(', ')] as const],
  )
}
