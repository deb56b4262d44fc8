const IPV4_MAPPED = '::ffff:'

/** A listener on all addresses sees IPv4 peers in their IPv6 form (RFC 4291, section 2.5.5.2). */
export function plainAddress(address: string): string {
  return address.startsWith(IPV4_MAPPED) ? address.slice(IPV4_MAPPED.length) : address
}
