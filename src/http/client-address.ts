import type { BlockList } from 'node:net'
import { plainAddress } from '../domain/address/plain-address.ts'
import { readForwardedAddress } from './forwarded-address.ts'
import { isTrustedProxy } from './trusted-proxies.ts'

/** What a trusted proxy says is no address: it is in no network that a key allows. */
export const UNKNOWN_ADDRESS = 'an unknown address'

/**
 * The peer's address or, where the peer is a trusted proxy, the rightmost address of `X-Forwarded-For` that is not one
 * itself. Text that is no IP address, and all that stands before it, is not believed.
 * @param peerAddress the other end of the connection, as Node gives it
 * @param trusted null where no proxy is trusted
 * @param forwardedFor the header; Node joins several fields with a comma
 */
export function clientAddressOf(
  peerAddress: string,
  trusted: BlockList | null,
  forwardedFor: string | undefined,
): string {
  let address = plainAddress(peerAddress)
  if (!isTrustedProxy(trusted, address) || forwardedFor === undefined) return address
  for (const hop of forwardedFor.split(',').reverse()) {
    const said = readForwardedAddress(hop)
    if (said === null) return UNKNOWN_ADDRESS
    address = said
    if (!isTrustedProxy(trusted, address)) return address
  }
  return address
}
