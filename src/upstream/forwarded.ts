import type { IncomingHttpHeaders } from 'node:http'
import type { BlockList } from 'node:net'
import { plainAddress } from '../domain/plain-address.ts'
import { isTrustedProxy } from '../http/trusted-proxies.ts'

/** Client address, protocol and host that the upstream receives. */
export interface Forwarded {
  readonly for: string
  readonly proto: 'http' | 'https'
  readonly host: string
}

/**
 * What goes on as X-Forwarded-For, -Proto and -Host: rebuilt, so that a client can claim nothing.
 * @param peerAddress the other end of the connection, as Node gives it
 * @param trusted proxies whose word is taken; null where there are none, which costs nothing
 */
export function forwardedOf(
  peerAddress: string,
  trusted: BlockList | null,
  headers: IncomingHttpHeaders,
): Forwarded {
  const peer = plainAddress(peerAddress)
  const host = headers.host ?? ''
  if (!isTrustedProxy(trusted, peer)) return { for: peer, proto: 'http', host }
  const said = textOf(headers['x-forwarded-for'])
  return {
    for: said === '' ? peer : `${said}, ${peer}`,
    proto: headers['x-forwarded-proto'] === 'https' ? 'https' : 'http',
    host: textOf(headers['x-forwarded-host']) || host,
  }
}

function textOf(value: string | string[] | undefined): string {
  return typeof value === 'string' ? value : (value?.join(', ') ?? '')
}
