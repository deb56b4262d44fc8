import { Agent, type buildConnector, type Dispatcher, fetch, type RequestInit, type Response } from 'undici'
import { type HttpProxy, NO_PROXIES, type ProxySettings, proxyFor, type Target } from '../domain/proxy.ts'
import {
  connectorThrough,
  ProxyError,
  proxyAuthorization,
  proxyUnreachable,
  refusedByProxy,
} from './connect.ts'

interface OutgoingOptions extends Omit<Agent.Options, 'connect'> {
  readonly proxies: ProxySettings
  /** Certificate authorities of the target; default: those of Node. */
  readonly ca?: string | undefined
  /** For a connection, that to the proxy and the tunnel included. */
  readonly connectTimeoutMs: number
  /** Makes all connections in place of ours, those through the proxy included. */
  readonly connector?: buildConnector.connector
}

type OutgoingRequest = Omit<Dispatcher.RequestOptions, 'origin' | 'path'>

/** Codes of a connection that was not made. */
const NOT_CONNECTED = /^(?:ECONN|ENOTFOUND|EAI_|EHOST|ENET|ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT)/

/**
 * HTTP to what lies outside of the installation, directly or through the proxy of the settings: https by a tunnel, http in
 * absolute form (RFC 9112, section 3.2.2), because many proxies refuse a tunnel to port 80.
 */
export class OutgoingClient {
  readonly #proxies: ProxySettings
  readonly #agent: Dispatcher

  constructor({ proxies, ca, connectTimeoutMs, connector, ...options }: OutgoingOptions) {
    this.#proxies = connector === undefined ? proxies : NO_PROXIES
    const settings = { timeout: connectTimeoutMs, ...(ca === undefined ? {} : { ca }) }
    const connect = connector ?? connectorThrough(proxies, settings, connectTimeoutMs)
    const agent = new Agent({ ...options, allowH2: false, connect })
    this.#agent = agent.compose(dispatch => (options, handler) => {
      const target = new URL(String(options.origin))
      const proxy = this.#plainProxyFor(target)
      return dispatch(proxy === null ? options : inAbsoluteForm(options, target, proxy), handler)
    })
  }

  /** For a library that sends requests itself. */
  get dispatcher(): Dispatcher {
    return this.#agent
  }

  /** Follows no redirect. */
  async request(url: URL, options: OutgoingRequest): Promise<Dispatcher.ResponseData> {
    const { origin, pathname, search } = url
    try {
      const response = await this.#agent.request({ ...options, origin, path: pathname + search })
      const refusal = this.#findRefusal(url, response.statusCode)
      if (refusal === null) return response
      response.body.on('error', () => {}).destroy()
      throw refusal
    } catch (error) {
      throw this.#explain(url, error)
    }
  }

  async fetch(url: string, options: RequestInit): Promise<Response> {
    const target = new URL(url)
    try {
      const response = await fetch(target, { ...options, dispatcher: this.#agent })
      const refusal = this.#findRefusal(target, response.status)
      if (refusal === null) return response
      await response.body?.cancel()
      throw refusal
    } catch (error) {
      throw this.#explain(target, error)
    }
  }

  stop(): Promise<void> {
    return this.#agent.destroy()
  }

  #plainProxyFor(target: Target): HttpProxy | null {
    return target.protocol === 'http:' ? proxyFor(target, this.#proxies) : null
  }

  /** Only a proxy asks for proxy authentication. */
  #findRefusal(url: URL, status: number): ProxyError | null {
    const proxy = status === 407 ? this.#plainProxyFor(url) : null
    return proxy === null ? null : refusedByProxy(proxy, url.host, status)
  }

  #explain(url: URL, error: unknown): unknown {
    const cause = error instanceof TypeError && error.cause instanceof Error ? error.cause : error
    if (cause instanceof ProxyError) return cause
    const proxy = this.#plainProxyFor(url)
    if (proxy === null || !(cause instanceof Error)) return error
    const code = 'code' in cause ? String(cause.code) : ''
    // Of the status 407 `fetch` makes a network error, which has no code (Fetch standard, HTTP-network-or-cache fetch).
    if (error instanceof TypeError && code === '') return refusedByProxy(proxy, url.host, 407)
    return NOT_CONNECTED.test(code) ? proxyUnreachable(proxy, code) : error
  }
}

function inAbsoluteForm(
  options: Dispatcher.DispatchOptions,
  { origin, host }: URL,
  { url }: HttpProxy,
): Dispatcher.DispatchOptions {
  // Both callers above pass a record of fields.
  const fields = options.headers as Record<string, string>
  return {
    ...options,
    origin: url.origin,
    path: origin + options.path,
    headers: { ...fields, host, ...proxyAuthorization(url) },
  }
}
