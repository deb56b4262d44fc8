import { readFileSync } from 'node:fs'
import type { Server, ServerOptions } from 'node:https'
import type { Socket } from 'node:net'
import { createSecureContext, type TLSSocket } from 'node:tls'
import type { FastifyInstance } from 'fastify'
import type { OnReload, PrepareReload } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema.ts'
import { requireAuthorities, requirePair } from '../../domain/pem.ts'

type TlsFiles = Config['console']['internal']['tls']

/** A client that does not complete its handshake in this time is disconnected. */
const HANDSHAKE_TIMEOUT_MS = 10_000

export interface HandshakeLog {
  failed(error: Error & { code?: unknown }): void
  works(): void
}

/** @returns null where the listener is to speak plain HTTP */
export function tlsOptionsOf(files: TlsFiles): ServerOptions | null {
  const material = readMaterial(files)
  if (material === null) return null
  const requestCert = material.ca !== undefined
  return { ...material, requestCert, rejectUnauthorized: requestCert, handshakeTimeout: HANDSHAKE_TIMEOUT_MS }
}

/**
 * Refuses a change of the settings that would turn TLS, or the demand for client certificates, on or off: a listener has
 * them from its start or not at all.
 */
export function refuseSwitching(running: TlsFiles): PrepareReload<TlsFiles> {
  return next => {
    for (const name of ['certFile', 'clientCaFile'] as const) {
      if ((next[name] === undefined) === (running[name] === undefined)) continue
      throw new Error(`console.internal.tls.${name}: is set or removed by a restart only`)
    }
    return () => {}
  }
}

/**
 * Keeps the certificates of a listener as new as their files. A connection made with the old ones ends with its next
 * answer, and an idle one at once, so that a client is soon held to the authority that is in use now.
 */
export function watchTls(app: FastifyInstance, onReload: OnReload<TlsFiles>, handshakes: HandshakeLog): void {
  // Fastify names the type of a plain server; `tlsOptionsOf` has made it one of TLS.
  const server = app.server as unknown as Server
  const peers = new Set<string>()
  let peersBefore: ReadonlySet<string> = new Set()
  // By address: Node does not say which connection became which TLS socket, and a handshake may outlast the change.
  server.on('connection', (socket: Socket) => {
    const peer = peerOf(socket)
    peers.add(peer)
    socket.once('close', () => peers.delete(peer))
  })
  server.on('secureConnection', () => handshakes.works())
  // Before Node passes it on as a client error: nothing readable can be answered on such a connection.
  server.prependListener('tlsClientError', (error: Error, socket: TLSSocket) => {
    socket.destroy()
    handshakes.failed(explain(error, socket))
  })
  app.addHook('onRequest', async ({ raw }, reply) => {
    if (peersBefore.has(peerOf(raw.socket))) void reply.header('connection', 'close')
  })
  onReload(files => {
    const material = readMaterial(files)
    if (material === null) return () => {}
    // Throws what it cannot use, here, where the change can still be refused.
    createSecureContext(material)
    return () => {
      server.setSecureContext(material)
      peersBefore = new Set(peers)
      // Once the event loop has read what had come: a request on its way is no idle connection.
      setImmediate(() => server.closeIdleConnections())
    }
  })
}

function readMaterial({ certFile, keyFile, clientCaFile }: TlsFiles) {
  if (certFile === undefined || keyFile === undefined) return null
  const [cert, key] = [readFileSync(certFile, 'utf8'), readFileSync(keyFile, 'utf8')]
  requirePair(cert, key, 'console.internal.tls.certFile')
  if (clientCaFile === undefined) return { cert, key }
  const ca = readFileSync(clientCaFile, 'utf8')
  requireAuthorities(ca, 'console.internal.tls.clientCaFile')
  return { cert, key, ca }
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}

/** Node says of a refused certificate only that the connection was reset; the socket knows the reason. */
function explain(error: Error, { authorizationError }: TLSSocket): Error {
  const reason: unknown = authorizationError
  return reason === undefined || reason === null
    ? error
    : Object.assign(new Error('The client certificate was refused'), { code: String(reason) })
}
