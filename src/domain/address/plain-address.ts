import { normalizeCidrs } from './cidr.ts'

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
