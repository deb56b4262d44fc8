import { isInCidrs } from './cidr.ts'

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
