import type { UpstreamSettings } from './connection.ts'
import type { Place } from './resolver.ts'

/** Where the upstream's servers are: at the addresses that are set, else where its URL says. */
export function placesOf({ url, addresses }: Pick<UpstreamSettings, 'url' | 'addresses'>): Place[] {
  const { protocol, hostname, port } = new URL(url)
  const usual = protocol === 'https:' ? 443 : 80
  if (addresses.length === 0) return [{ host: withoutBrackets(hostname), port: Number(port || usual) }]
  return addresses.map(address => {
    const colon = address.lastIndexOf(':')
    return { host: withoutBrackets(address.slice(0, colon)), port: Number(address.slice(colon + 1)) }
  })
}

/** An IPv6 address stands in brackets where a port may follow. */
function withoutBrackets(host: string): string {
  return host.replace(/^\[|\]$/g, '')
}
