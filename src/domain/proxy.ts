import { isInCidrs, normalizeCidrs, withoutBrackets, withoutFinalDot } from './form/address.ts'

/** The settings of outgoing calls, which the variables HTTPS_PROXY, HTTP_PROXY and NO_PROXY set. */
export interface ProxySettings {
  readonly httpsProxy?: string
  readonly httpProxy?: string
  readonly noProxy: readonly string[]
}

export const NO_PROXIES: ProxySettings = { noProxy: [] }

export interface HttpProxy {
  readonly url: URL
  /** The setting that names it, for error messages. */
  readonly setting: string
}

/** What is called: a URL, or the part of it that a connection needs. */
export type Target = Pick<URL, 'protocol' | 'hostname' | 'port'>

/** `host:port`, `[address]:port`, `host` or `[address]` */
const HOST_AND_PORT = /^(\[[0-9a-f:.]+\]|[^:[\]]+)(?::(\d{1,5}))?$/i
/** A last label of digits is an address or a part of one, in no form that is compared. */
const NAME = /^(?!(?:.*\.)?\d+\.?$)(?:\*?\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?$/i

/** @returns null for a call that goes to its target directly. An https call never takes the proxy for http, nor the other way round */
export function proxyFor(
  target: Target,
  { httpsProxy, httpProxy, noProxy }: ProxySettings,
): HttpProxy | null {
  const isSecure = target.protocol === 'https:'
  const address = isSecure ? httpsProxy : httpProxy
  if (address === undefined || noProxy.some(entry => isNamedBy(entry, target))) return null
  const setting = isSecure ? 'outgoing.httpsProxy (HTTPS_PROXY)' : 'outgoing.httpProxy (HTTP_PROXY)'
  return { url: new URL(address), setting }
}

/** Its port, also where the address leaves it out. */
export function effectivePort({ protocol, port }: Pick<Target, 'protocol' | 'port'>): number {
  return Number(port || (protocol === 'https:' ? 443 : 80))
}

/** An entry is `*`, an address, a network, or a name, which stands for its subdomains too; a name or address may have a port. */
export function isNoProxyEntry(entry: string): boolean {
  if (entry === '*' || normalizeCidrs([entry]) !== null) return true
  const [, host = '', port = '1'] = HOST_AND_PORT.exec(entry) ?? []
  if (Number(port) < 1 || Number(port) > 65_535) return false
  return normalizeCidrs([withoutBrackets(host)]) !== null || (!host.startsWith('[') && NAME.test(host))
}

function isNamedBy(entry: string, target: Target): boolean {
  if (entry === '*') return true
  const host = withoutFinalDot(withoutBrackets(target.hostname).toLowerCase())
  if (normalizeCidrs([entry]) !== null) return isInCidrs(host, [entry])
  const [, named = '', port] = HOST_AND_PORT.exec(entry) ?? []
  if (port !== undefined && Number(port) !== effectivePort(target)) return false
  const name = withoutFinalDot(withoutBrackets(named).toLowerCase()).replace(/^\*?\./, '')
  if (normalizeCidrs([name]) !== null) return isInCidrs(host, [name])
  return host === name || host.endsWith(`.${name}`)
}
