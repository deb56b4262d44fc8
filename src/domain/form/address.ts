export const MAX_CIDRS = 32
const IPV4_BITS = 32
const IPV6_BITS = 128
/** IPv4-mapped IPv6 addresses are `::ffff:0:0/96` (RFC 4291, section 2.5.5.2). */
const MAPPED_BITS = IPV6_BITS - IPV4_BITS
const MAPPED = 0xffffn
const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/
const IPV6_CHARACTERS = /^[0-9A-Fa-f:.]{2,45}$/
const PREFIX_LENGTH = /^(?:0|[1-9]\d{0,2})$/

/** The first address of a network, as a number. A single address is a network of one. */
interface Network {
  readonly start: bigint
  readonly prefixLength: number
  /** Of an address: 32 or 128. */
  readonly bits: number
}

/**
 * Networks in one form each, sorted, each once: address bits beyond the prefix are zero, IPv6 is written as in RFC 5952,
 * an IPv4-mapped network is its IPv4 network, and a single address has its full prefix length.
 * @returns null if one is neither an IP address nor a CIDR
 */
export function normalizeCidrs(cidrs: readonly string[]): string[] | null {
  const networks = cidrs.map(parseNetwork).filter(network => network !== null)
  return networks.length < cidrs.length ? null : [...new Set(networks.map(formatNetwork))].sort()
}

/** Whether the address is in one of the networks. `::/0` holds no IPv4 address, and `0.0.0.0/0` no IPv6 address. */
export function isInCidrs(address: string, cidrs: readonly string[]): boolean {
  const single = address.includes('/') ? null : parseNetwork(address)
  if (single === null) return false
  return parseNetworks(cidrs).some(
    network => network.bits === single.bits && networkStart(single.start, network) === network.start,
  )
}

/** Parsed once for each list in memory: 32 IPv6 networks take 0.1 ms to parse. */
const PARSED = new WeakMap<readonly string[], readonly Network[]>()

function parseNetworks(cidrs: readonly string[]): readonly Network[] {
  let networks = PARSED.get(cidrs)
  if (networks === undefined) {
    networks = cidrs.map(parseNetwork).filter(network => network !== null)
    PARSED.set(cidrs, networks)
  }
  return networks
}

/** The network of a client's address: /24 for IPv4, /48 for IPv6. @returns '' for text that is no IP address */
export function anonymizeAddress(address: string): string {
  const prefixLength = IPV4.test(address) ? 24 : 48
  return normalizeCidrs([`${address}/${prefixLength}`])?.[0] ?? ''
}

function parseNetwork(text: string): Network | null {
  const slash = text.indexOf('/')
  const address = slash < 0 ? text : text.slice(0, slash)
  const bits = IPV4.test(address) ? IPV4_BITS : IPV6_BITS
  const value = bits === IPV4_BITS ? valueOfIpv4(address) : valueOfIpv6(address)
  const suffix = slash < 0 ? String(bits) : text.slice(slash + 1)
  const prefixLength = Number(suffix)
  if (value === null || !PREFIX_LENGTH.test(suffix) || prefixLength > bits) return null
  const network = { start: networkStart(value, { prefixLength, bits }), prefixLength, bits }
  return isMapped(network)
    ? {
        start: network.start & 0xffff_ffffn,
        prefixLength: prefixLength - MAPPED_BITS,
        bits: IPV4_BITS,
      }
    : network
}

/** No IPv4 address is so large, and a prefix shorter than /96 clears bits of it. */
function isMapped({ start }: Network): boolean {
  return start >> BigInt(IPV4_BITS) === MAPPED
}

function networkStart(value: bigint, { prefixLength, bits }: Pick<Network, 'prefixLength' | 'bits'>): bigint {
  const hostBits = BigInt(bits - prefixLength)
  return (value >> hostBits) << hostBits
}

function valueOfIpv4(address: string): bigint {
  return address.split('.').reduce((value, part) => (value << 8n) + BigInt(part), 0n)
}

function valueOfIpv6(address: string): bigint | null {
  const host = IPV6_CHARACTERS.test(address) ? URL.parse(`http://[${address}]`)?.hostname : undefined
  if (host === undefined) return null
  // The URL parser has validated it, and leaves at most one `::` and no dotted part.
  const [before = '', after = ''] = host.slice(1, -1).split('::')
  const [head, tail] = [splitGroups(before), splitGroups(after)]
  const zeros = Array.from({ length: 8 - head.length - tail.length }, () => '0')
  return [...head, ...zeros, ...tail].reduce((value, group) => (value << 16n) + BigInt(`0x${group}`), 0n)
}

function splitGroups(text: string): string[] {
  return text === '' ? [] : text.split(':')
}

function formatNetwork({ start, prefixLength, bits }: Network): string {
  return `${bits === IPV4_BITS ? formatIpv4(start) : formatIpv6(start)}/${prefixLength}`
}

function formatIpv4(value: bigint): string {
  return [24n, 16n, 8n, 0n].map(shift => (value >> shift) & 0xffn).join('.')
}

function formatIpv6(value: bigint): string {
  const groups = Array.from({ length: 8 }, (_, index) => (value >> BigInt(112 - 16 * index)) & 0xffffn)
  const { hostname } = new URL(`http://[${groups.map(group => group.toString(16)).join(':')}]`)
  return hostname.slice(1, -1)
}

/** What one client controls: an IPv4 address, or the /64 of an IPv6 address. */
export function findClientNetwork(address: string): string {
  if (!address.includes(':') || address.includes('.')) return address
  const [head = '', tail] = address.split('::')
  const groups = head === '' ? [] : head.split(':')
  const missing = tail === undefined ? 0 : 8 - groups.length - tail.split(':').length
  return [...groups, ...Array.from({ length: missing }, () => '0'), ...(tail ?? '').split(':')]
    .slice(0, 4)
    .join(':')
}

const IPV4_MAPPED = '::ffff:'
const MAYBE_MAPPED = /^[0:]*:ffff:/i

/**
 * An IPv4-mapped IPv6 address in its IPv4 form: a listener on all addresses sees IPv4 peers so (RFC 4291, section
 * 2.5.5.2). A link-local address without its zone, which names an interface of this machine. Any other text as it is.
 */
export function plainAddress(address: string): string {
  const zone = address.indexOf('%')
  if (zone > 0 && address.includes(':')) return plainAddress(address.slice(0, zone))
  if (address.startsWith(IPV4_MAPPED) && address.includes('.')) return address.slice(IPV4_MAPPED.length)
  // Forms that only a proxy writes, such as ::ffff:c000:207.
  if (!MAYBE_MAPPED.test(address)) return address
  const [network] = normalizeCidrs([address]) ?? []
  return network?.endsWith('/32') === true && network.includes('.')
    ? network.slice(0, -'/32'.length)
    : address
}

export const PUBLIC_NETWORKS = ['0.0.0.0/0', '2000::/3']

/** Inside those: what the IANA registries of special-purpose addresses take out, and metadata services of clouds. */
export const SPECIAL_NETWORKS = [
  '0.0.0.0/8', // this network
  '10.0.0.0/8', // private (RFC 1918)
  '100.64.0.0/10', // carrier-grade NAT (RFC 6598); Alibaba's metadata
  '127.0.0.0/8', // loopback
  '168.63.129.16/32', // Azure's platform service
  '169.254.0.0/16', // link-local; metadata of most clouds
  '172.16.0.0/12', // private
  '192.0.0.0/24', // protocol assignments; Oracle's metadata
  '192.0.2.0/24', // documentation
  '192.88.99.0/24', // 6to4 relays
  '192.168.0.0/16', // private
  '198.18.0.0/15', // benchmarks
  '198.51.100.0/24', // documentation
  '203.0.113.0/24', // documentation
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, broadcast
  '2001::/23', // protocol assignments; Teredo holds IPv4 addresses
  '2001:db8::/32', // documentation
  '2002::/16', // 6to4, which holds IPv4 addresses
  '3fff::/20', // documentation
]

/**
 * Whether the address is one of the public Internet. An IPv4-mapped address is its IPv4 address; loopback, unique local,
 * link-local, multicast and NAT64 addresses of IPv6 are outside 2000::/3.
 */
export function isPublicAddress(address: string): boolean {
  return isInCidrs(address, PUBLIC_NETWORKS) && !isInCidrs(address, SPECIAL_NETWORKS)
}

/** Where requests may go that people, not the operator, ask for. */
export interface AddressPolicy {
  /** Beside public addresses. */
  readonly allowedCidrs: readonly string[]
  /** Stronger than allowed ones. */
  readonly deniedCidrs: readonly string[]
}

export function mayConnectTo(address: string, { allowedCidrs, deniedCidrs }: AddressPolicy): boolean {
  if (isInCidrs(address, deniedCidrs)) return false
  return isInCidrs(address, allowedCidrs) || isPublicAddress(address)
}

/**
 * The name of a server in TLS: without the dot that ends an absolute name. The dot tells a resolver to skip its search
 * domains, and is no part of the name in SNI (RFC 6066, section 3) or in a certificate.
 */
export function withoutFinalDot(name: string): string {
  return name.endsWith('.') ? name.slice(0, -1) : name
}

/** IPv6 literals carry brackets in a URL (RFC 3986, section 3.2.2), but not in a socket address. */
export function withoutBrackets(host: string): string {
  return host.replace(/^\[|\]$/g, '')
}
