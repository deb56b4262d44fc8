import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { findClientNetwork, plainAddress } from '../domain/form/address.ts'
import { ClientConnection } from './client-connection.ts'

/** Which limit closed a connection: that of its address, or that of the listener. */
export type ReachedLimit = 'address' | 'listener'

interface ConnectionLimitOptions {
  readonly maxConnections: number
  /** For an IPv4 address or an IPv6 /64; null for no such limit. */
  readonly maxPerAddress: number | null
  /** Peers that have no limit of their own, such as trusted proxies. */
  readonly isExempt: (peerAddress: string) => boolean
  readonly onClosed: (limit: ReachedLimit) => void
  readonly onAccepted: () => void
}

/** Bounds the work for one new connection. */
const MAX_EXAMINED = 64

interface Connection {
  readonly accepted: Socket
  readonly peer: string
  /** Null if only the limit of the listener applies. */
  readonly network: string | null
  /** The socket that HTTP is read from: with TLS another one, after the handshake. */
  stream: Socket
}

/**
 * At a limit, a new connection replaces one that has no complete request: preferably one whose request is incomplete,
 * else an idle one, the oldest first. If all have a request in progress, the new one closes. So clients that send
 * incomplete requests cannot keep others out. Call it after `guardConnections`.
 */
export function limitConnections(server: Server, options: ConnectionLimitOptions): void {
  const { maxConnections, maxPerAddress, isExempt, onClosed, onAccepted } = options
  const all = new Set<Connection>()
  const byNetwork = new Map<string, Set<Connection>>()
  const byPeer = new Map<string, Connection>()

  server.on('connection', (accepted: Socket) => {
    const connection = {
      accepted,
      peer: peerName(accepted),
      network: countedNetwork(accepted),
      stream: accepted,
    }
    const ofNetwork = add(connection)
    accepted.once('close', () => remove(connection))
    if (maxPerAddress !== null && ofNetwork.size > maxPerAddress) replaceOne(ofNetwork, connection, 'address')
    else if (all.size > maxConnections) replaceOne(all, connection, 'listener')
    else onAccepted()
  })
  // By address: Node does not link a connection to its TLS socket.
  server.on('secureConnection', (stream: Socket) => {
    const connection = byPeer.get(peerName(stream))
    if (connection !== undefined) connection.stream = stream
  })

  function countedNetwork({ remoteAddress = '' }: Socket): string | null {
    const address = plainAddress(remoteAddress)
    return maxPerAddress === null || isExempt(address) ? null : findClientNetwork(address)
  }

  /** @returns all connections of its network; none if it has no limit */
  function add(connection: Connection): Set<Connection> {
    const { peer, network } = connection
    all.add(connection)
    byPeer.set(peer, connection)
    if (network === null) return new Set()
    const ofNetwork = byNetwork.get(network) ?? new Set()
    byNetwork.set(network, ofNetwork.add(connection))
    return ofNetwork
  }

  function remove(connection: Connection): void {
    const { peer, network } = connection
    all.delete(connection)
    if (byPeer.get(peer) === connection) byPeer.delete(peer)
    if (network === null) return
    const ofNetwork = byNetwork.get(network)
    ofNetwork?.delete(connection)
    if (ofNetwork?.size === 0) byNetwork.delete(network)
  }

  function replaceOne(connections: Set<Connection>, added: Connection, limit: ReachedLimit): void {
    const closed = findReplaceable(connections, added) ?? added
    remove(closed)
    closed.accepted.destroy()
    onClosed(limit)
  }
}

export function peerName({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}

/** Those with a request in progress move to the end, so that they are not examined again and again. */
function findReplaceable(connections: Set<Connection>, added: Connection): Connection | null {
  let idle: Connection | null = null
  let left = Math.min(MAX_EXAMINED, connections.size)
  for (const connection of connections) {
    if (left-- === 0) break
    if (connection === added) continue
    switch (ClientConnection.of(connection.stream)?.waitsFor ?? 'request') {
      case 'request':
        return connection
      case 'next_request':
        idle ??= connection
        break
      case 'response':
        connections.delete(connection)
        connections.add(connection)
    }
  }
  return idle
}
