import { isIP } from 'node:net'
import { withoutBrackets, withoutFinalDot } from '../domain/address/host-name.ts'

/** The address of a server. */
export interface Endpoint {
  readonly host: string
  readonly port: number
  /** The name expected in its certificate, if it differs from the host, such as when the host is a resolved address. */
  readonly servername?: string
}

/** Called before each connection; the result may differ each time. */
export type FindServer = () => Endpoint | Promise<Endpoint>

export const REDIS_PORT = 6379
export const SENTINEL_PORT = 26_379

/** @param text `host`, `host:port`, or an address with a scheme */
export function parseEndpoint(text: string, defaultPort: number): Endpoint {
  const url = new URL(text.includes('://') ? text : `redis://${text}`)
  return {
    host: withoutBrackets(url.hostname) || '127.0.0.1',
    port: url.port === '' ? defaultPort : Number(url.port),
  }
}

/** The name that the server's certificate must carry; undefined for an IP address, which TLS does not accept as a name. */
export function servernameOf({ host, servername = host }: Endpoint): string | undefined {
  return isIP(servername) === 0 ? withoutFinalDot(servername) : undefined
}

export function isSameServer(one: Endpoint | null, other: Endpoint | null): boolean {
  return one !== null && other !== null && one.host === other.host && one.port === other.port
}
