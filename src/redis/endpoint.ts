import { isIP } from 'node:net'

/** A server as it is connected to. */
export interface Endpoint {
  readonly host: string
  readonly port: number
  /** Its name in the certificate, where that is not the host: the host may be an address that was looked up. */
  readonly servername?: string
}

/** Asked before each connection: the answer may be another one each time. */
export type FindServer = () => Endpoint | Promise<Endpoint>

export const REDIS_PORT = 6379
export const SENTINEL_PORT = 26_379

/** @param text `host`, `host:port`, or an address of the schemes redis: and rediss: */
export function parseEndpoint(text: string, defaultPort: number): Endpoint {
  const url = new URL(text.includes('://') ? text : `redis://${text}`)
  return {
    host: url.hostname.replace(/^\[|\]$/g, '') || '127.0.0.1',
    port: url.port === '' ? defaultPort : Number(url.port),
  }
}

export function isEncrypted(text: string): boolean {
  return /^rediss:/i.test(text.trimStart())
}

/** The name that a server's certificate must be of; none where an address stands for itself. */
export function servernameOf({ host, servername = host }: Endpoint): string | undefined {
  return isIP(servername) === 0 ? servername : undefined
}

export function isSameServer(one: Endpoint | null, other: Endpoint | null): boolean {
  return one !== null && other !== null && one.host === other.host && one.port === other.port
}
