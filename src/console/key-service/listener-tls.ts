import type { Server, ServerOptions } from 'node:https'
import type { Socket } from 'node:net'
import { createSecureContext, type TLSSocket } from 'node:tls'
import type { FastifyInstance } from 'fastify'
import type { OnReload, PrepareReload } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema/schema.ts'
import { readAuthorities, readCertificate } from '../../config/setting-files.ts'
import { peerName } from '../../http/connection-limit.ts'

type TlsFiles = Config['console']['internal']['tls']

/** A client that does not complete its handshake within this time is disconnected. */
const HANDSHAKE_TIMEOUT_MS = 10_000

interface HandshakeLog {
  failed(error: Error & { code?: unknown }): void
  succeeded(): void
}

/** @returns null for plain HTTP */
export function readTlsOptions(files: TlsFiles): ServerOptions | null {
  const material = readMaterial(files)
  if (material === null) return null
  const requestCert = material.ca !== undefined
  return { ...material, requestCert, rejectUnauthorized: requestCert, handshakeTimeout: HANDSHAKE_TIMEOUT_MS }
}

/**
 * Rejects a reload that would switch TLS or client certificates on or off: a listener has them from its start or not at
 * all.
 */
export function rejectSwitching(running: TlsFiles): PrepareReload<TlsFiles> {
  return next => {
    for (const name of ['certFile', 'clientCaFile'] as const) {
      if ((next[name] === undefined) === (running[name] === undefined)) continue
      throw new Error(`console.internal.tls.${name}: can be set or removed only by a restart`)
    }
    return () => {}
  }
}

/**
 * Reloads the certificates of a listener. Connections made with the old ones close after their next response, idle ones at
 * once, so that clients are soon verified against the current CA.
 */
export function watchTls(app: FastifyInstance, onReload: OnReload<TlsFiles>, handshakes: HandshakeLog): void {
  // Fastify types the server as plain HTTP; with `readTlsOptions` it is a TLS server.
  const server = app.server as unknown as Server
  const peers = new Set<string>()
  let peersBefore: ReadonlySet<string> = new Set()
  // By address: Node does not link a connection to its TLS socket, and a handshake may outlast the reload.
  server.on('connection', (socket: Socket) => {
    const peer = peerName(socket)
    peers.add(peer)
    socket.once('close', () => peers.delete(peer))
  })
  server.on('secureConnection', () => handshakes.succeeded())
  // Before Node emits it as a client error: a failed handshake cannot carry a response.
  server.prependListener('tlsClientError', (error: Error, socket: TLSSocket) => {
    socket.destroy()
    handshakes.failed(explain(error, socket))
  })
  app.addHook('onRequest', async ({ raw }, reply) => {
    if (peersBefore.has(peerName(raw.socket))) void reply.header('connection', 'close')
  })
  onReload(files => {
    const material = readMaterial(files)
    if (material === null) return () => {}
    // Throws on unusable material here, where the reload can still be rejected.
    createSecureContext(material)
    return () => {
      server.setSecureContext(material)
      peersBefore = new Set(peers)
      // After the event loop has read pending requests: their connections are not idle.
      setImmediate(() => server.closeIdleConnections())
    }
  })
}

function readMaterial(files: TlsFiles) {
  const certificate = readCertificate(files, 'console.internal.tls')
  if (certificate === null) return null
  return { ...certificate, ...readAuthorities(files.clientCaFile, 'console.internal.tls.clientCaFile') }
}

/** Node reports a rejected certificate only as a reset; the socket has the reason. */
function explain(error: Error, { authorizationError }: TLSSocket): Error {
  const reason: unknown = authorizationError
  return reason === undefined || reason === null
    ? error
    : Object.assign(new Error('The client certificate was rejected'), { code: String(reason) })
}
