import { Resolver } from 'node:dns/promises'
import { isIP, isIPv6, type LookupFunction, type Socket } from 'node:net'
import type { buildConnector } from 'undici'
import { withoutBrackets } from '../../domain/form/address.ts'
import { type HttpProxy, type ProxySettings, proxyFor } from '../../domain/proxy.ts'
import { createConnector, hostAndPort, openTunnel } from '../../outgoing/connect.ts'

/** @returns the addresses of a name; rejects if there are none */
export type ResolveAddresses = (hostname: string) => Promise<readonly string[]>

export interface Guard {
  readonly mayConnectTo: (address: string) => boolean
  readonly resolve: ResolveAddresses
  readonly timeoutMs: number
  readonly proxies: ProxySettings
  /** Certificate authorities; default: those of Node. */
  readonly ca?: string
}

/** Connections are tried one after the other. */
const MAX_ADDRESSES = 8

/**
 * Connects to addresses that the guard allows. The socket itself asks for them here, once, so that a name cannot have
 * another address between the check and the connection. An address in place of a name never comes to `lookup`.
 */
export function createGuardedConnector(guard: Guard): buildConnector.connector {
  const { timeoutMs, mayConnectTo, proxies, ca } = guard
  const trusted = ca === undefined ? {} : { ca }
  const connect = createConnector({
    ...trusted,
    timeout: timeoutMs,
    lookup: guardedLookup(guard),
    // No session is resumed: the connector serves one connection.
    maxCachedSessions: 0,
  })
  return (options, callback) => {
    const host = withoutBrackets(options.hostname)
    if (isIP(host) !== 0 && !mayConnectTo(host)) return callback(addressNotAllowed(), null)
    const proxy = proxyFor(options, proxies)
    if (proxy !== null) {
      guardedTunnel(guard, proxy, options).then(
        socket =>
          options.protocol === 'https:'
            ? connect({ ...options, httpSocket: socket }, callback)
            : callback(null, socket),
        (error: Error) => callback(error, null),
      )
      return
    }
    connect(options, (...result) => {
      const [error, socket] = result
      if (error !== null) return callback(error, null)
      // The lookup has checked it. A change in a library that bypasses the lookup must not open the network.
      if (mayConnectTo(socket.remoteAddress ?? '')) return callback(null, socket)
      socket.destroy()
      callback(addressNotAllowed(), null)
    })
  }
}

/** One address that is not allowed refuses the name: no choice of addresses leads to it. */
async function allowedAddresses({ resolve, mayConnectTo }: Guard, hostname: string): Promise<string[]> {
  const addresses = await resolve(hostname)
  if (addresses.length === 0 || !addresses.every(mayConnectTo)) throw addressNotAllowed()
  return addresses.slice(0, MAX_ADDRESSES)
}

/**
 * A tunnel to an address that was checked, never to a name: the proxy would resolve it anew, and it stands in the network that
 * the guard protects. The address of the proxy is the operator's own, so the guard does not apply to it.
 */
async function guardedTunnel(
  guard: Guard,
  proxy: HttpProxy,
  { hostname, protocol, port }: buildConnector.Options,
): Promise<Socket> {
  const host = withoutBrackets(hostname)
  const addresses = isIP(host) === 0 ? await allowedAddresses(guard, host) : [host]
  // IPv4 first: a proxy without IPv6 is more common than one without IPv4.
  const [address = host] = addresses.toSorted((one, other) => isIP(one) - isIP(other))
  return openTunnel(
    proxy,
    hostAndPort(address, port || (protocol === 'https:' ? '443' : '80')),
    guard.timeoutMs,
  )
}

function guardedLookup(guard: Guard): LookupFunction {
  return (hostname, options, callback) => {
    const find = async () => {
      const addresses = await allowedAddresses(guard, hostname)
      return addresses.map(address => ({ address, family: isIPv6(address) ? 6 : 4 }))
    }
    find().then(
      found => {
        const [first] = found
        if (options.all === true || first === undefined) callback(null, found)
        else callback(null, first.address, first.family)
      },
      (error: Error) => callback(error, ''),
    )
  }
}

function addressNotAllowed(): Error {
  return Object.assign(new Error('The address is not allowed'), { code: 'ADDRESS_NOT_ALLOWED' })
}

/**
 * By DNS alone, without the hosts file and search domains. `dns.lookup` would occupy one of a few threads of the process for
 * as long as a name server of another party takes.
 * @param servers default: those of the machine
 */
export function createResolver(timeoutMs: number, servers?: readonly string[]): ResolveAddresses {
  return async hostname => {
    const resolver = new Resolver({ timeout: timeoutMs, tries: 1 })
    if (servers !== undefined) resolver.setServers(servers)
    const found = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)])
    const addresses = found.flatMap(family => (family.status === 'fulfilled' ? family.value : []))
    if (addresses.length > 0) return addresses
    throw Object.assign(new Error('The name has no address'), { code: 'NO_ADDRESS' })
  }
}
