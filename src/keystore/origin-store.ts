import { readFileSync } from 'node:fs'
import { Pool } from 'undici'
import type { Config } from '../config/schema.ts'
import { decodeRecord } from '../domain/wire.ts'
import type { KeyTier, TierAnswer } from './key-store.ts'
import { asError } from './trouble-log.ts'

/** Settings of an origin that is configured at all. */
export type OriginSettings = Config['origin'] & { readonly url: string }

const CONNECTIONS = 8
const MAX_BODY_BYTES = 16 * 1024
/** What a kept-alive connection dies of when the other side closes it just then: asked again, once. */
const RESET_CODES = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** The authority. Only its own `not_found` says that there is no such key; whatever else goes wrong is no answer. */
export class OriginStore implements KeyTier {
  readonly name = 'origin'
  readonly #pool: Pool
  readonly #basePath: string
  readonly #timeoutMs: number
  readonly #headers: Readonly<Record<string, string>>

  constructor(settings: OriginSettings) {
    const url = new URL(settings.url)
    this.#pool = new Pool(url.origin, poolOptions(settings))
    this.#basePath = `${url.pathname.replace(/\/+$/, '')}/internal/v1/keys/`
    this.#timeoutMs = settings.timeoutMs
    this.#headers = {
      accept: 'application/json',
      ...(settings.token === undefined ? {} : { authorization: `Bearer ${settings.token}` }),
    }
  }

  async get(digest: string): Promise<TierAnswer> {
    try {
      const { status, text } = await this.#ask(digest, AbortSignal.timeout(this.#timeoutMs))
      return readAnswer(status, text, digest)
    } catch (error) {
      return { kind: 'failed', error: asError(error) }
    }
  }

  async stop(): Promise<void> {
    await this.#pool.destroy()
  }

  /** @param signal one deadline over waiting, connecting, head and body, the second try included */
  async #ask(digest: string, signal: AbortSignal): Promise<{ status: number; text: string }> {
    try {
      return await this.#askOnce(digest, signal)
    } catch (error) {
      if (signal.aborted || !isReset(error)) throw error
      return await this.#askOnce(digest, signal)
    }
  }

  async #askOnce(digest: string, signal: AbortSignal): Promise<{ status: number; text: string }> {
    const { statusCode, body } = await this.#pool.request({
      method: 'GET',
      path: this.#basePath + digest,
      headers: this.#headers,
      signal,
    })
    return { status: statusCode, text: await readBounded(body) }
  }
}

function poolOptions(settings: OriginSettings): Pool.Options {
  const ca = settings.caFile === undefined ? {} : { ca: readFileSync(settings.caFile) }
  return {
    connections: CONNECTIONS,
    connect: { ...ca, timeout: settings.timeoutMs },
    // undici's own are coarse, and do not cover waiting for a connection: the deadline is ours.
    headersTimeout: 0,
    bodyTimeout: 0,
  }
}

/** Leaving the loop early destroys the body, and with it the connection. */
async function readBounded(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.length
    if (size > MAX_BODY_BYTES) throw new Error(`The origin answered with more than ${MAX_BODY_BYTES} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function readAnswer(status: number, text: string, digest: string): TierAnswer {
  if (status === 404 && saysNotFound(text)) return { kind: 'absent' }
  if (status !== 200) return failed(`The origin answered ${status}`)
  const decoded = decodeRecord(text, digest, null)
  return decoded.ok
    ? { kind: 'found', grant: decoded.grant }
    : failed(`The origin’s record is ${decoded.why}`)
}

function saysNotFound(text: string): boolean {
  try {
    const json: unknown = JSON.parse(text)
    return typeof json === 'object' && json !== null && 'code' in json && json.code === 'not_found'
  } catch {
    return false // Some other server's 404, which knows nothing of keys.
  }
}

function failed(message: string): TierAnswer {
  return { kind: 'failed', error: new Error(message) }
}

function isReset(error: unknown): boolean {
  return error instanceof Error && 'code' in error && RESET_CODES.has(String(error.code))
}
