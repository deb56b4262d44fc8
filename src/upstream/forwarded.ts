import type { IncomingHttpHeaders } from 'node:http'
import type { BlockList } from 'node:net'
import { plainAddress } from '../domain/address/plain-address.ts'
import { isTrustedProxy } from '../http/trusted-proxies.ts'

/** Client address, protocol and host that the upstream receives. */
export interface Forwarded {
  readonly for: string
  readonly proto: 'http' | 'https'
  readonly host: string
}

/**
 * Builds X-Forwarded-For, -Proto and -Host for the upstream. The client's own fields count only from trusted proxies.
 * @param peerAddress `remoteAddress` of the client's socket
 * @param trusted null if no proxy is trusted
 */
export function forwardedOf(
  peerAddress: string,
  trusted: BlockList | null,
  headers: IncomingHttpHeaders,
): Forwarded {
  const peer = plainAddress(peerAddress)
  const host = headers.host ?? ''
  if (!isTrustedProxy(trusted, peer)) return { for: peer, proto: 'http', host }
  const received = textOf(headers['x-forwarded-for'])
  return {
    for: received === '' ? peer : `${received}, ${peer}`,
    proto: schemeOf(textOf(headers['x-forwarded-proto'])),
    host: textOf(headers['x-forwarded-host']) || host,
  }
}

/** Each proxy may add its own: the first value is that of the client's connection. Some write it in capitals. */
function schemeOf(text: string): 'http' | 'https' {
  const [first = ''] = text.split(',', 1)
  return first.trim().toLowerCase() === 'https' ? 'https' : 'http'
}

function textOf(value: string | string[] | undefined): string {
  return typeof value === 'string' ? value : (value?.join(', ') ?? '')
}
