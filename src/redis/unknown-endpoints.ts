import { Command } from 'ioredis'
import type { Endpoint } from './endpoint.ts'

/** Stands for the host of a node that the cluster does not name. No server can have this name (RFC 6761, section 6.4). */
const UNNAMED = 'unnamed.invalid'

/**
 * A node behind a load balancer may name no host in `CLUSTER SLOTS`: null (`cluster-preferred-endpoint-type unknown-endpoint`), an empty
 * text, or `?` where it lacks its host name. The host that was asked is meant then, with the port of the reply. ioredis leaves out
 * such nodes, and connects to a host named `?`.
 */
export function nameUnnamedHosts(reply: unknown): unknown {
  if (!Array.isArray(reply)) return reply
  return reply.map((range: unknown) => (Array.isArray(range) ? range.map(nameUnnamedHost) : range))
}

function nameUnnamedHost(node: unknown): unknown {
  if (!Array.isArray(node)) return node
  const [host, ...rest]: unknown[] = node
  return [isUnnamed(host) ? UNNAMED : host, ...rest]
}

const isUnnamed = (host: unknown) => host === null || host === '' || host === '?'

// Only the clients of a cluster send this command.
Command.setReplyTransformer('cluster', nameUnnamedHosts)

/**
 * @param key host and port as in a reply: of a slot, or of MOVED and ASK
 * @returns where a node is that has no name; null for another one
 */
export function findUnnamed(key: string, askedHost: string | null): Endpoint | null {
  const at = key.lastIndexOf(':')
  const [host, port] = [key.slice(0, at), Number(key.slice(at + 1))]
  if (askedHost === null || (host !== UNNAMED && !isUnnamed(host))) return null
  return { host: askedHost, port }
}
