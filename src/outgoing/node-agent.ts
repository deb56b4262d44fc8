import type { Agent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { isIP, Socket } from 'node:net'
import { type ConnectionOptions, connect } from 'node:tls'
import { withoutBrackets, withoutFinalDot } from '../domain/form/address.ts'
import { effectivePort, type ProxySettings, proxyFor } from '../domain/proxy.ts'
import { Agent as HttpAgent } from '../http/node-http.ts'
import { hostAndPort, openTunnel } from './connect.ts'

/** For a library that calls one address with Node's own client: directly, or through the proxy as `OutgoingClient` does it. */
export function nodeAgentFor(
  url: URL,
  { proxies, timeoutMs }: { readonly proxies: ProxySettings; readonly timeoutMs: number },
): Agent {
  const host = withoutBrackets(url.hostname)
  const proxy = proxyFor(url, proxies)
  if (url.protocol === 'http:') {
    const through = proxy === null ? {} : { proxyEnv: { http_proxy: proxy.url.href } }
    return new HttpAgent({ keepAlive: true, ...through })
  }
  const options = {
    keepAlive: true,
    ...(isIP(host) === 0 ? { servername: withoutFinalDot(host) } : {}),
  }
  if (proxy === null) return new HttpsAgent(options)
  const authority = hostAndPort(host, String(effectivePort(url)))
  // At each connection anew: a reload may change user and password.
  const open = () => openTunnel(proxyFor(url, proxies) ?? proxy, authority, timeoutMs)
  return new TunnelAgent(options, open)
}

class TunnelAgent extends HttpsAgent {
  readonly #open: () => Promise<Socket>

  constructor(options: ConnectionOptions & { readonly keepAlive: boolean }, open: () => Promise<Socket>) {
    super(options)
    this.#open = open
  }

  override createConnection(...[options, connected]: Parameters<HttpsAgent['createConnection']>): undefined {
    this.#open().then(
      // Node adds those of the agent, its `servername` included.
      socket => connected?.(null, connect({ ...(options as ConnectionOptions), socket })),
      // The type demands a stream, which is not looked at beside an error.
      (error: Error) => connected?.(error, new Socket()),
    )
  }
}
