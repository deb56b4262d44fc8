import { request as requestSecure } from 'node:https'
import { isIP, isIPv6, type Socket } from 'node:net'
import { buildConnector } from 'undici'
import { withoutBrackets, withoutFinalDot } from '../domain/form/address.ts'
import { effectivePort, type HttpProxy, type ProxySettings, proxyFor, type Target } from '../domain/proxy.ts'
import { request as requestPlain } from '../http/node-http.ts'

/** undici's connector for HTTP/1.1, which would send the final dot of an absolute name in TLS. */
export function createConnector(options: buildConnector.BuildOptions): buildConnector.connector {
  const connect = buildConnector({ ...options, allowH2: false })
  return (target, callback) => {
    const name = target.servername || target.hostname
    connect(name.endsWith('.') ? { ...target, servername: withoutFinalDot(name) } : target, callback)
  }
}

/** Connects to targets of https by a tunnel of the proxy, if there is one for them; to others, and the proxy itself, directly. */
export function connectorThrough(
  proxies: ProxySettings,
  settings: buildConnector.BuildOptions,
  timeoutMs: number,
): buildConnector.connector {
  const connect = createConnector(settings)
  const isProxyForHttp = ({ protocol, hostname, port }: Target) => {
    const proxy = URL.parse(proxies.httpProxy ?? '')
    return proxy?.protocol === protocol && proxy.host === hostAndPort(hostname, port)
  }
  return (target, callback) => {
    const proxy = target.protocol === 'https:' ? proxyFor(target, proxies) : null
    if (proxy === null || isProxyForHttp(target)) return connect(target, callback)
    openTunnel(proxy, hostAndPort(target.hostname, target.port || '443'), timeoutMs).then(
      httpSocket => connect({ ...target, httpSocket }, callback),
      (error: Error) => callback(error, null),
    )
  }
}

/** @param host a name, or an address without brackets @param port empty for that of the protocol */
export function hostAndPort(host: string, port: string): string {
  const name = isIPv6(host) ? `[${host}]` : host
  return port === '' ? name : `${name}:${port}`
}

/** The proxy's header fields for user and password of its address. */
export function proxyAuthorization({ username, password }: URL): { readonly 'proxy-authorization'?: string } {
  if (username === '') return {}
  const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return { 'proxy-authorization': `Basic ${Buffer.from(login).toString('base64')}` }
}

/**
 * Opens a connection through the proxy, by CONNECT (RFC 9110, section 9.3.6).
 * @param authority `host:port` of the target @throws ProxyError
 */
export function openTunnel(proxy: HttpProxy, authority: string, timeoutMs: number): Promise<Socket> {
  const { url } = proxy
  const host = withoutBrackets(url.hostname)
  const { promise, resolve, reject } = Promise.withResolvers<Socket>()
  const request = (url.protocol === 'https:' ? requestSecure : requestPlain)({
    host,
    port: effectivePort(url),
    ...(isIP(host) === 0 ? { servername: withoutFinalDot(host) } : {}),
    method: 'CONNECT',
    path: authority,
    headers: { host: authority, ...proxyAuthorization(url) },
    // A connection of its own: what the socket carries afterwards is not HTTP to the proxy.
    agent: false,
  })
  const deadline = setTimeout(() => {
    reject(proxyUnreachable(proxy, `no response within ${timeoutMs} ms`))
    request.destroy()
  }, timeoutMs)
  request.once('connect', ({ statusCode = 0 }, socket: Socket) => {
    if (statusCode >= 200 && statusCode <= 299) return resolve(socket)
    socket.destroy()
    reject(refusedByProxy(proxy, authority, statusCode))
  })
  // Any other response to CONNECT than a tunnel comes as one, too, so a `response` is no HTTP proxy's.
  request.once('response', response => {
    response.destroy()
    reject(refusedByProxy(proxy, authority, response.statusCode ?? 0))
  })
  request.on('error', (error: Error & { code?: string }) =>
    reject(proxyUnreachable(proxy, error.code ?? error.message)),
  )
  request.end()
  return promise.finally(() => clearTimeout(deadline))
}

/**
 * A call failed at the proxy. The message says what to do, and never holds the proxy's user and password. It has no cause:
 * what is logged is the innermost cause.
 */
export class ProxyError extends Error {
  readonly code: string

  constructor(message: string, code: string) {
    super(message)
    this.code = code
  }
}

/** @param status of the proxy's response in place of a tunnel */
export function refusedByProxy(proxy: HttpProxy, target: string, status: number): ProxyError {
  const text = `the proxy ${proxy.url.origin} of ${proxy.setting} responded with ${status} for ${target}: ${adviceFor(proxy, status)}`
  return new ProxyError(text, `PROXY_${status}`)
}

export function proxyUnreachable({ url, setting }: HttpProxy, code: string): ProxyError {
  const text = `the proxy ${url.origin} of ${setting} cannot be reached (${code}): check its address, and that it runs`
  return new ProxyError(text, 'PROXY_UNREACHABLE')
}

function adviceFor({ url, setting }: HttpProxy, status: number): string {
  if (status === 407) {
    const login = url.username === '' ? 'put user and password into the address' : 'check user and password'
    return `${login} of ${setting}`
  }
  if (status >= 500) return 'the proxy does not reach it; check that it resolves the name and may connect'
  return 'allow it at the proxy, or name the host in outgoing.noProxy (NO_PROXY)'
}
