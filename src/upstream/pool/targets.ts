import { withoutBrackets } from '../../domain/address/host-name.ts'
import type { UpstreamSettings } from './connection.ts'
import type { UpstreamTarget } from './resolver.ts'

/** @returns the configured addresses, or the host and port of the URL if none are configured */
export function upstreamTargetsOf({
  url,
  addresses,
}: Pick<UpstreamSettings, 'url' | 'addresses'>): UpstreamTarget[] {
  const { protocol, hostname, port } = new URL(url)
  const defaultPort = protocol === 'https:' ? 443 : 80
  if (addresses.length === 0) return [{ host: withoutBrackets(hostname), port: Number(port || defaultPort) }]
  return addresses.map(address => {
    const colon = address.lastIndexOf(':')
    return { host: withoutBrackets(address.slice(0, colon)), port: Number(address.slice(colon + 1)) }
  })
}
