import { readFileSync } from 'node:fs'
import { Pool } from 'undici'
import type { Config } from '../config/schema.ts'

/** Settings of an origin that is configured at all. */
export type OriginSettings = Omit<Config['origin'], 'circuit'> & { readonly url: string }

export interface OriginRequest {
  readonly method: 'GET' | 'POST'
  /** Below `/internal/v1`. */
  readonly path: string
  /** Sent as JSON. */
  readonly body?: unknown
  /** An answer with more is cut. */
  readonly maxBytes: number
}

export interface OriginReply {
  readonly status: number
  readonly text: string
}

export const ORIGIN_CONNECTIONS = 8

/** What a kept-alive connection dies of when the other side closes it just then: asked again, once. */
const RESET_CODES = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** HTTP to the key service, bounded in time and in size. Whatever is asked of it may be asked twice. */
export class OriginClient {
  readonly #pool: Pool
  readonly #basePath: string
  readonly #headers: Readonly<Record<string, string>>

  constructor(settings: OriginSettings) {
    const url = new URL(settings.url)
    this.#pool = new Pool(url.origin, poolOptions(settings))
    this.#basePath = `${url.pathname.replace(/\/+$/, '')}/internal/v1`
    this.#headers = {
      accept: 'application/json',
      ...(settings.token === undefined ? {} : { authorization: `Bearer ${settings.token}` }),
    }
  }

  /**
   * @param signal one deadline over waiting, connecting, head and body, the second try included
   * @throws where there is no whole answer in time
   */
  async ask(request: OriginRequest, signal: AbortSignal): Promise<OriginReply> {
    try {
      return await this.#askOnce(request, signal)
    } catch (error) {
      if (signal.aborted || !isReset(error)) throw error
      return await this.#askOnce(request, signal)
    }
  }

  async stop(): Promise<void> {
    await this.#pool.destroy()
  }

  async #askOnce({ method, path, body, maxBytes }: OriginRequest, signal: AbortSignal): Promise<OriginReply> {
    const json = body === undefined ? {} : { 'content-type': 'application/json' }
    const answer = await this.#pool.request({
      method,
      path: this.#basePath + path,
      headers: { ...this.#headers, ...json },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal,
    })
    return { status: answer.statusCode, text: await readBounded(answer.body, maxBytes) }
  }
}

function poolOptions(settings: OriginSettings): Pool.Options {
  const ca = settings.caFile === undefined ? {} : { ca: readFileSync(settings.caFile) }
  return {
    connections: ORIGIN_CONNECTIONS,
    connect: { ...ca, timeout: settings.timeoutMs },
    // undici's own are coarse, and do not cover waiting for a connection: the deadline is ours.
    headersTimeout: 0,
    bodyTimeout: 0,
  }
}

/** Leaving the loop early destroys the body, and with it the connection. */
async function readBounded(body: AsyncIterable<Buffer>, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.length
    if (size > maxBytes) throw new Error(`The origin answered with more than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function isReset(error: unknown): boolean {
  return error instanceof Error && 'code' in error && RESET_CODES.has(String(error.code))
}
