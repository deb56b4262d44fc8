import { normalizeCidrs } from './cidr.ts'

const IPV4_MAPPED = '::ffff:'
const MAYBE_MAPPED = /^[0:]*:ffff:/i

/**
 * An IPv4-mapped IPv6 address in its IPv4 form, any other text as it is: a listener on all addresses sees IPv4 peers so
 * (RFC 4291, section 2.5.5.2).
 */
export function plainAddress(address: string): string {
  if (address.startsWith(IPV4_MAPPED) && address.includes('.')) return address.slice(IPV4_MAPPED.length)
  // Forms that only a proxy writes, such as ::ffff:c000:207.
  if (!MAYBE_MAPPED.test(address)) return address
  const [network] = normalizeCidrs([address]) ?? []
  return network?.endsWith('/32') === true && network.includes('.')
    ? network.slice(0, -'/32'.length)
    : address
}
