import { BlockList, isIPv6 } from 'node:net'
import { plainAddress } from '../domain/address/plain-address.ts'

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
