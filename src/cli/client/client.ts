import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Static, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import { key as describedKey, gateways, instantOrNull, regions } from '../../console/platform/http/fields.ts'
import { parseJson } from '../../domain/form/json.ts'
import { EXIT } from '../../run/host.ts'
import { CliError } from '../cli.ts'
import {
  DatabaseUnavailableError,
  fetchError,
  interruptedError,
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
  /** The connection was reset, so that an earlier attempt may have made the change. */
  readonly isRepeated: boolean
}

/** The address of the admin API, and its token. */
export interface ConsoleAccess {
  /** Without a trailing slash. */
  readonly url: string
  readonly token: string
}

interface AdminRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH'
  /** Below `/admin/v1`. */
  readonly path: string
  readonly body?: Readonly<Record<string, unknown>>
  /** Sends an idempotency key, so that a retry does not repeat the call; a text is that of an earlier command. */
  readonly once?: boolean | string
  /** Further options with which a later command sends this request again: what it would otherwise choose by the time. */
  readonly repeatedWith?: string
  /** The version that a PATCH changes, sent as If-Match. */
  readonly version?: number
  readonly deadlineMs?: number
}

/** Calls the listener on Ctrl-C, which from then on does not end the process. */
type OnInterrupt = (listener: () => void) => void

/** A client of the admin API. Anything but success is thrown as an error whose message is for people. */
export class AdminClient {
  readonly url: string
  /** The clock of the console at its last response; null until one says it. */
  consoleMs: number | null = null
  readonly #token: string
  readonly #onInterrupt: OnInterrupt

  /** @param onInterrupt for requests with an idempotency key: Ctrl-C ends these with a message that says how to find what was made */
  constructor({ url, token }: ConsoleAccess, onInterrupt: OnInterrupt = () => {}) {
    this.url = url
    this.#token = token
    this.#onInterrupt = onInterrupt
  }

  /**
   * Retries once if the connection is reset, and while the database is unavailable what has an idempotency key; one deadline covers all
   * attempts. A retry is safe: reads, revocations and syncs may be repeated, and the idempotency key covers issuing and rotating. A PATCH is not repeated: had the first one arrived,
   * its own change would look like one by someone else.
   */
  async send(call: AdminRequest): Promise<AdminResponse> {
    const { deadlineMs = DEADLINE_MS } = call
    const deadline = AbortSignal.timeout(deadlineMs)
    const interrupt = new AbortController()
    if (call.once !== undefined) this.#onInterrupt(() => interrupt.abort())
    const signal = AbortSignal.any([deadline, interrupt.signal])
    const request = this.#createRequest(call, signal)
    try {
      return await this.#attempt(call, request, signal)
    } catch (error) {
      const unanswered = () =>
        interrupt.signal.aborted
          ? interruptedError(this.url)
          : fetchError(this.url, error, deadline.aborted ? deadlineMs : null)
      const explained = error instanceof CliError ? error : unanswered()
      const idempotencyKey = new Headers(request.headers).get('idempotency-key')
      throw withIdempotencyKey(explained, idempotencyKey, call.repeatedWith)
    }
  }

  /** An earlier attempt may have made the change, also if the last response does not mention it. */
  async #attempt(call: AdminRequest, request: RequestInit, signal: AbortSignal): Promise<AdminResponse> {
    let unconfirmed: DatabaseUnavailableError | null = null
    for (let retries = 0; ; retries++) {
      try {
        return { ...(await this.#fetch(call, request)), isRepeated: retries > 0 }
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

  async #fetch({ path }: AdminRequest, request: RequestInit): Promise<Omit<AdminResponse, 'isRepeated'>> {
    const response = await fetch(`${this.url}/admin/v1${path}`, request)
    this.consoleMs = readDate(response.headers) ?? this.consoleMs
    const text = await response.text()
    const json = parseJson(text)
    if (response.ok && json !== undefined) return { text, json }
    throw responseError(this.url, response, json)
  }
}

/** RFC 9110, section 6.6.1. */
function readDate(headers: Headers): number | null {
  const ms = Date.parse(headers.get('date') ?? '')
  return Number.isNaN(ms) ? null : ms
}

const PAGE_SIZE = 200

/** @throws CliError for a response that does not fit the schema */
export function readResponse<Schema extends TSchema>(
  client: AdminClient,
  schema: Schema,
  { json }: AdminResponse,
): Static<Schema> {
  if (!Value.Check(schema, json)) throw client.notUnderstood()
  return json
}

/**
 * All pages of a list, one after the other.
 * @param path below `/admin/v1`, without the query
 * @param query without `limit` and `cursor`
 */
export async function* readPages<Schema extends TSchema, Item>(
  client: AdminClient,
  { path, query = {} }: { path: string; query?: Readonly<Record<string, string>> },
  schema: Schema,
  readItems: (page: Static<Schema>) => readonly Item[],
): AsyncGenerator<readonly Item[]> {
  let cursor: string | undefined
  do {
    const parameters = new URLSearchParams({ ...query, limit: String(PAGE_SIZE), ...(cursor && { cursor }) })
    const response = await client.send({ method: 'GET', path: `${path}?${parameters}` })
    const page = readResponse(client, schema, response)
    yield readItems(page)
    // Every schema of a list has the field, or leaves it out.
    const { cursor: next } = page as Static<typeof paged>
    // The same cursor again would loop for ever.
    if (next === cursor && cursor !== undefined) throw client.notUnderstood()
    cursor = next
  } while (cursor !== undefined)
}

// The parts of responses that commands show. Fields that a newer console adds are ignored.
export const count = Type.Integer({ minimum: 0 })
export const instant = Type.String({ pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d' })
/** Of a response that another one continues. */
export const paged = Type.Object({ cursor: Type.Optional(Type.String()) })
export const nullable = <Schema extends TSchema>(schema: Schema) => Type.Union([schema, Type.Null()])

const { id, workspaceId, name, scopes, hint, createdAt, expiresAt, revokedAt, lastUsedAt, state, ...added } =
  describedKey.properties
/** As the console describes it. An older one leaves out fields that were added since; a newer one may know more states. */
export const shownKey = Type.Object({
  id,
  workspaceId,
  name,
  scopes,
  hint,
  createdAt,
  expiresAt,
  revokedAt,
  lastUsedAt,
  state: Type.String(),
  ...Type.Partial(Type.Object(added)).properties,
})
export type ShownKey = Static<typeof shownKey>

export const keyResponse = Type.Object({ key: shownKey })
/** How far a change has come. */
export const shownProgress = Type.Object({ announced: Type.Boolean(), gateways, regions })
export type ShownProgress = Static<typeof shownProgress>
/** Of a revocation, suspension, resumption or edit. */
export const changedResponse = Type.Object({
  key: shownKey,
  committedAt: instantOrNull,
  ...shownProgress.properties,
})
export const keysResponse = Type.Object({ keys: Type.Array(shownKey), ...paged.properties })

export async function readKey(client: AdminClient, id: string): Promise<ShownKey> {
  const response = await client.send({ method: 'GET', path: `/keys/${id}` })
  return readResponse(client, keyResponse, response).key
}

/** What each answer says of a call that changes keys in parts, beside how many it changed. */
export const changedPart = Type.Object({ ...shownProgress.properties, ...paged.properties })
type ChangedPart = Static<typeof changedPart> & { readonly keys: number }

/** The console answers after some seconds, and the last answer waits for slow announcements. */
const PART_DEADLINE_MS = 60_000

/**
 * Repeats a call that changes many keys until it is done: each answer says where the next call goes on.
 * @param onPart called after each answer, with the number of keys so far
 * @returns the last answer, with the keys of all
 */
export async function callUntilDone(
  client: AdminClient,
  { path, ...call }: Pick<AdminRequest, 'method' | 'path' | 'body'>,
  read: (response: AdminResponse) => ChangedPart,
  onPart: (keys: number, isLast: boolean) => Promise<void> = async () => {},
): Promise<ChangedPart> {
  let keys = 0
  let cursor: string | undefined
  let gateways: ShownProgress['gateways'] = null
  for (;;) {
    const query = new URLSearchParams({ wait: '1', ...(cursor && { cursor }) })
    const sent = { ...call, path: `${path}?${query}`, deadlineMs: PART_DEADLINE_MS }
    const part = read(await client.send(sent))
    if (part.cursor !== undefined && part.keys === 0) throw client.notUnderstood()
    keys += part.keys
    cursor = part.cursor
    // A last call without a key has nothing that gateways confirm.
    gateways = part.gateways ?? gateways
    await onPart(keys, cursor === undefined)
    if (cursor === undefined) return { ...part, gateways, keys }
  }
}
