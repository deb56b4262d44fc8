import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import { plainAddress } from '../../domain/plain-address.ts'

/**
 * The client's address: the peer's own, or the rightmost address of `X-Forwarded-For` that is not itself one of
 * `console.trustedProxies`. Where that is no address, the one of the proxy that sent it: text of a client's choosing never
 * stands in the audit log.
 */
export function clientAddressOf({ ip, ips }: Pick<FastifyRequest, 'ip' | 'ips'>): string {
  // From the peer outwards; `ips` is there only where a proxy is trusted.
  const address = (ips ?? [ip]).findLast(hop => isIP(hop) !== 0)
  return address === undefined ? 'unknown' : plainAddress(address)
}
