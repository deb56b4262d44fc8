import { readFileSync } from 'node:fs'
import { buildConnector, Pool } from 'undici'
import { neverReloads, type OnReload, reloadable } from '../../../config/reloadable.ts'
import type { Config } from '../../../config/schema.ts'
import { requireAuthorities, requirePair } from '../../../domain/pem.ts'

/** Settings of a key service that is configured at all. */
export type KeyServiceSettings = Omit<Config['keyService'], 'circuit'> & { readonly url: string }

export interface KeyServiceRequest {
  readonly method: 'GET' | 'POST'
  /** Below `/internal/v1`. */
  readonly path: string
  /** Sent as JSON. */
  readonly body?: unknown
  /** An answer with more bytes is rejected. */
  readonly maxBytes: number
}

export interface KeyServiceReply {
  readonly status: number
  readonly text: string
}

export const KEY_SERVICE_CONNECTIONS = 8

/** More bytes than any valid answer has. The key service is reachable all the same. */
export class OversizedAnswer extends Error {}

/** The server closed a kept-alive connection at the moment of the request, which is then repeated once. */
const RESET_CODES = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** HTTP to the key service, bounded in time and size. Requests are idempotent: each may be sent twice. */
export class KeyServiceClient {
  readonly #pool: Pool
  readonly #basePath: string
  readonly #headers: { readonly value: Readonly<Record<string, string>> }

  /** @param onReload for a new token and new certificates */
  constructor(settings: KeyServiceSettings, onReload: OnReload<KeyServiceSettings> = neverReloads) {
    const url = new URL(settings.url)
    const connector = reloadable(settings, onReload, connectorFor)
    this.#pool = new Pool(url.origin, {
      connections: KEY_SERVICE_CONNECTIONS,
      connect: (...options) => connector.value(...options),
      // undici's own are coarse, and do not cover waiting for a connection: the deadline is ours.
      headersTimeout: 0,
      bodyTimeout: 0,
    })
    this.#basePath = `${url.pathname.replace(/(?<!\/)\/+$/, '')}/internal/v1`
    this.#headers = reloadable(settings, onReload, ({ token }) => ({
      accept: 'application/json',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    }))
  }

  /**
   * @param signal one deadline over waiting, connecting, head and body, the second try included
   * @throws if there is no complete answer in time
   */
  async request(request: KeyServiceRequest, signal: AbortSignal): Promise<KeyServiceReply> {
    try {
      return await this.#requestOnce(request, signal)
    } catch (error) {
      if (signal.aborted || !isReset(error)) throw error
      return await this.#requestOnce(request, signal)
    }
  }

  async stop(): Promise<void> {
    await this.#pool.destroy()
  }

  async #requestOnce(
    { method, path, body, maxBytes }: KeyServiceRequest,
    signal: AbortSignal,
  ): Promise<KeyServiceReply> {
    const json = body === undefined ? {} : { 'content-type': 'application/json' }
    const answer = await this.#pool.request({
      method,
      path: this.#basePath + path,
      headers: { ...this.#headers.value, ...json },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal,
    })
    return { status: answer.statusCode, text: await readBounded(answer.body, maxBytes) }
  }
}

function connectorFor({ tls, timeoutMs }: KeyServiceSettings): buildConnector.connector {
  return buildConnector({ ...authoritiesIn(tls), ...clientCertificateIn(tls), timeout: timeoutMs })
}

function authoritiesIn({ caFile }: KeyServiceSettings['tls']): { ca?: string } {
  if (caFile === undefined) return {}
  const ca = readFileSync(caFile, 'utf8')
  requireAuthorities(ca, 'keyService.tls.caFile')
  return { ca }
}

function clientCertificateIn({ certFile, keyFile }: KeyServiceSettings['tls']): {
  cert?: string
  key?: string
} {
  if (certFile === undefined || keyFile === undefined) return {}
  const [cert, key] = [readFileSync(certFile, 'utf8'), readFileSync(keyFile, 'utf8')]
  requirePair(cert, key, 'keyService.tls.certFile')
  return { cert, key }
}

/** Leaving the loop early destroys the body, and with it the connection. */
async function readBounded(body: AsyncIterable<Buffer>, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.length
    if (size > maxBytes)
      throw new OversizedAnswer(`The key service answered with more than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function isReset(error: unknown): boolean {
  return error instanceof Error && 'code' in error && RESET_CODES.has(String(error.code))
}
