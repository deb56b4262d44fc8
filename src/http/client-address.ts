import type { IncomingHttpHeaders } from 'node:http'
import { BlockList, isIP, isIPv6 } from 'node:net'
import { plainAddress } from '../domain/form/address.ts'

/** Stands for a forwarded value that is not an IP address: it is in no network that a key allows. */
export const UNKNOWN_ADDRESS = 'an unknown address'

/**
 * The peer's address or, where the peer is a trusted proxy, the rightmost address of `X-Forwarded-For` that is not one
 * itself. A value that is not an IP address, and everything to its left, is not trusted.
 * @param peerAddress the other end of the connection, as Node gives it
 * @param trusted null where no proxy is trusted
 * @param forwardedFor the header; Node joins several fields with a comma
 */
export function findClientAddress(
  peerAddress: string,
  trusted: BlockList | null,
  forwardedFor: string | undefined,
): string {
  let address = plainAddress(peerAddress)
  if (!isTrustedProxy(trusted, address) || forwardedFor === undefined) return address
  for (const hop of forwardedFor.split(',').reverse()) {
    const forwarded = readForwardedAddress(hop)
    if (forwarded === null) return UNKNOWN_ADDRESS
    address = forwarded
    if (!isTrustedProxy(trusted, address)) return address
  }
  return address
}

const PORT = /^:\d{1,5}$/
const IPV4_WITH_PORT = /^(\d{1,3}(?:\.\d{1,3}){3}):\d{1,5}$/

/**
 * One address of `X-Forwarded-For`, in the forms that proxies write: with a port (Azure, IIS, some load balancers of AWS),
 * an IPv6 address in brackets, with a zone.
 * @returns null for any other text, such as `unknown` or `_hidden`
 */
export function readForwardedAddress(text: string): string | null {
  const address = withoutPort(text.trim())
  return isIP(address) === 0 ? null : plainAddress(address)
}

function withoutPort(text: string): string {
  if (!text.startsWith('[')) return IPV4_WITH_PORT.exec(text)?.[1] ?? text
  const end = text.indexOf(']')
  const rest = text.slice(end + 1)
  return end > 0 && (rest === '' || PORT.test(rest)) ? text.slice(1, end) : text
}

/** @param ranges addresses or CIDR ranges @returns null if no proxy is trusted, which is the default */
export function compileProxies(ranges: readonly string[]): BlockList | null {
  if (ranges.length === 0) return null
  const list = new BlockList()
  for (const range of ranges) {
    const [address = '', bits] = range.split('/')
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    if (bits === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(bits), family)
  }
  return list
}

/** @param peerAddress `remoteAddress` of the client's socket */
export function isTrustedProxy(trusted: BlockList | null, peerAddress: string): boolean {
  if (trusted === null) return false
  const peer = plainAddress(peerAddress)
  return trusted.check(peer, isIPv6(peer) ? 'ipv6' : 'ipv4')
}

/** Client address, protocol and host that the upstream receives. */
export interface Forwarded {
  readonly for: string
  readonly proto: 'http' | 'https'
  readonly host: string
}

/**
 * Builds X-Forwarded-For, -Proto and -Host for the upstream. The client's own fields count only from trusted proxies.
 * @param peerAddress `remoteAddress` of the client's socket
 * @param trusted null if no proxy is trusted
 */
export function buildForwarded(
  peerAddress: string,
  trusted: BlockList | null,
  headers: IncomingHttpHeaders,
): Forwarded {
  const peer = plainAddress(peerAddress)
  const host = headers.host ?? ''
  if (!isTrustedProxy(trusted, peer)) return { for: peer, proto: 'http', host }
  const received = joinValues(headers['x-forwarded-for'])
  return {
    for: received === '' ? peer : `${received}, ${peer}`,
    proto: parseScheme(joinValues(headers['x-forwarded-proto'])),
    host: joinValues(headers['x-forwarded-host']) || host,
  }
}

/** Each proxy may add its own: the first value is that of the client's connection. Some write it in capitals. */
function parseScheme(text: string): 'http' | 'https' {
  const [first = ''] = text.split(',', 1)
  return first.trim().toLowerCase() === 'https' ? 'https' : 'http'
}

function joinValues(value: string | string[] | undefined): string {
  return typeof value === 'string' ? value : (value?.join(', ') ?? '')
}
