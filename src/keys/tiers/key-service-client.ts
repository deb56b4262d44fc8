import { type buildConnector, Pool } from 'undici'
import { neverReloads, type OnReload, reloadable } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema/schema.ts'
import { readAuthorities, readCertificate } from '../../config/setting-files.ts'
import { REGION_HEADER } from '../../domain/region.ts'
import { createConnector } from '../../outgoing/connect.ts'

/** The settings if a key service is configured. */
export type KeyServiceSettings = Omit<Config['keyService'], 'circuit'> & {
  readonly url: string
  /** Of the gateway: the console writes records that its Redis lacks. */
  readonly region?: string | undefined
}

export interface KeyServiceRequest {
  readonly method: 'GET' | 'POST'
  /** Below `/internal/v1`. */
  readonly path: string
  /** Sent as JSON. */
  readonly body?: unknown
  /** A response with a longer body is rejected. */
  readonly maxBytes: number
}

export interface KeyServiceResponse {
  readonly status: number
  readonly text: string
}

/** Statuses of a key service that does not offer a call: some calls are optional for key services of other makers. */
const NOT_OFFERED = new Set([404, 405, 501])

export function isNotOffered({ status }: KeyServiceResponse): boolean {
  return NOT_OFFERED.has(status)
}

/** Client errors caused by the caller or the moment, not by the report (RFC 9110, section 15.5): it is repeated. */
const RETRYABLE_STATUSES = new Set([401, 403, 408, 425, 429])

/** A call that was not offered is tried again after this long: the status may have come from a proxy or load balancer. */
export const NOT_OFFERED_REST_MS = 300_000

/** A call for reports, which is optional for key services of other makers. */
export class ReportCall {
  #isOffered = false

  /**
   * A report that the key service would reject again is dropped: it would delay all later ones.
   * @throws if the report may be accepted later
   */
  outcomeOf(response: KeyServiceResponse): 'accepted' | 'rejected' | 'not_offered' {
    const { status } = response
    if (status >= 200 && status <= 299) {
      this.#isOffered = true
      return 'accepted'
    }
    // Once a report was accepted, it comes from a proxy or load balancer that has lost the way to the key service.
    if (isNotOffered(response)) {
      if (!this.#isOffered) return 'not_offered'
    } else if (status >= 400 && status <= 499 && !RETRYABLE_STATUSES.has(status)) return 'rejected'
    throw new Error(`The key service responded with status ${status}`)
  }
}

export const KEY_SERVICE_CONNECTIONS = 8

/** The response has more bytes than any valid one. The key service is reachable. */
export class OversizedResponse extends Error {
  readonly status: number

  constructor(status: number, maxBytes: number) {
    super(`The key service responded with more than ${maxBytes} bytes`)
    this.status = status
  }
}

/** The server closed an idle connection while the request was being sent: the request is repeated once. */
const RESET_CODES = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** HTTP to the key service, bounded in time and size. Requests are idempotent: each may be sent twice. */
export class KeyServiceClient {
  readonly #pool: Pool
  readonly #basePath: string
  readonly #headers: { readonly value: Readonly<Record<string, string>> }

  readonly #onStatus: (status: number) => void

  /**
   * @param onReload for a new token and new certificates
   * @param onStatus receives the status of each response
   */
  constructor(
    settings: KeyServiceSettings,
    onReload: OnReload<KeyServiceSettings> = neverReloads,
    onStatus: (status: number) => void = () => {},
  ) {
    this.#onStatus = onStatus
    const url = new URL(settings.url)
    const connector = reloadable(settings, onReload, connectorFor)
    this.#pool = new Pool(url.origin, {
      connections: KEY_SERVICE_CONNECTIONS,
      allowH2: false,
      connect: (...options) => connector.value(...options),
      // undici's time limits are coarse and do not cover waiting for a connection. The signal of each request does.
      headersTimeout: 0,
      bodyTimeout: 0,
    })
    this.#basePath = `${url.pathname.replace(/(?<!\/)\/+$/, '')}/internal/v1`
    this.#headers = reloadable(settings, onReload, ({ token = [] }) => ({
      accept: 'application/json',
      ...(settings.region === undefined ? {} : { [REGION_HEADER]: settings.region }),
      ...(token[0] === undefined ? {} : { authorization: `Bearer ${token[0]}` }),
    }))
  }

  /**
   * @param signal one deadline for waiting, connecting, head and body, including the second attempt
   * @throws if there is no complete response in time
   */
  async request(request: KeyServiceRequest, signal: AbortSignal): Promise<KeyServiceResponse> {
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
  ): Promise<KeyServiceResponse> {
    const json = body === undefined ? {} : { 'content-type': 'application/json' }
    const response = await this.#pool.request({
      method,
      path: this.#basePath + path,
      headers: { ...this.#headers.value, ...json },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal,
    })
    this.#onStatus(response.statusCode)
    return { status: response.statusCode, text: await readBounded(response, maxBytes) }
  }
}

function connectorFor({ tls, timeoutMs }: KeyServiceSettings): buildConnector.connector {
  const authorities = readAuthorities(tls.caFile, 'keyService.tls.caFile')
  return createConnector({ ...authorities, ...readCertificate(tls, 'keyService.tls'), timeout: timeoutMs })
}

/** Leaving the loop early destroys the body, and with it the connection. */
async function readBounded(
  { statusCode, body }: { readonly statusCode: number; readonly body: AsyncIterable<Buffer> },
  maxBytes: number,
): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.length
    if (size > maxBytes) throw new OversizedResponse(statusCode, maxBytes)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function isReset(error: unknown): boolean {
  return error instanceof Error && 'code' in error && RESET_CODES.has(String(error.code))
}
