import { connect, isIP, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import { type buildConnector, errors } from 'undici'
import { withoutFinalDot } from '../../domain/form/address.ts'
import { UpstreamFailure } from './failure.ts'

/**
 * What one read takes: Node itself reads 64 KiB at a time. How much may wait to be parsed before reading stops is the stream's
 * high water mark, which `main.ts` sets to as much, since a plain socket has no option for it. Both bound the memory held for
 * a client that reads nothing.
 */
export const READ_BYTES = 16 * 1024
/** After a read that filled its buffer, while the client takes all that comes: large bodies then cost a quarter less time. */
const MAX_READ_BYTES = 32 * 1024

/** A silent connection is asked by the system whether its other end is still there. */
const PROBED_AFTER_MS = 60_000

/** undici's options for a connection; its host and port are replaced by those of an address. */
export interface ConnectOptions extends buildConnector.Options {
  /** Sees all bytes as they arrive, and may change them. @returns false where they are another protocol */
  readonly accepts: (bytes: Uint8Array) => boolean
}

export type SocketConnector = (options: ConnectOptions, connected: buildConnector.Callback) => void

/**
 * @param name of the upstream, which its certificate must bear
 * @returns what makes one connection, or fails with its error or at the deadline
 */
export function socketConnector(name: string, timeoutMs: number, tls: ConnectionOptions): SocketConnector {
  // The Host field keeps a final dot: it is the authority of the URL as written (RFC 9112, section 3.2), as curl and Go send it.
  const named = isIP(name) === 0 ? { ...tls, servername: withoutFinalDot(name) } : tls
  const open = { http: openPlain, https: openSecure(named) }
  return (options, connected) => {
    const isSecure = options.protocol === 'https:'
    const socket = isSecure ? open.https(options) : open.http(options)
    const deadline = setTimeout(() => socket.destroy(new errors.ConnectTimeoutError()), timeoutMs)
    const failed = (error: Error) => {
      clearTimeout(deadline)
      connected(error, null)
    }
    socket.setNoDelay().setKeepAlive(true, PROBED_AFTER_MS)
    socket.once('error', failed)
    socket.once(isSecure ? 'secureConnect' : 'connect', () => {
      clearTimeout(deadline)
      socket.off('error', failed)
      connected(null, socket)
    })
  }
}

function openPlain(options: ConnectOptions): Socket {
  const socket: Socket = connect(socketOptions(options, MAX_READ_BYTES, () => socket))
  return socket
}

/** Always verifies the certificate: no setting disables it. */
function openSecure(tls: ConnectionOptions): (options: ConnectOptions) => Socket {
  let session: Buffer | undefined
  return options => {
    const socket: Socket = connectTls({
      ...tls,
      // TLS hands over at most one record of 16 KiB at a time (RFC 8446, section 5.1).
      ...socketOptions(options, READ_BYTES, () => socket),
      session,
      rejectUnauthorized: true,
      ALPNProtocols: ['http/1.1'],
    })
    return socket.on('session', resumable => {
      session = resumable
    })
  }
}

/**
 * Each read has memory of its own: what is held of a response is neither overwritten nor more than was read.
 * @param mostBytes of one read
 */
function socketOptions({ hostname, port, accepts }: ConnectOptions, mostBytes: number, socket: () => Socket) {
  let buffer = Buffer.allocUnsafeSlow(READ_BYTES)
  const take = (length: number): Buffer => {
    const read = buffer
    if (length === read.length) {
      const allIsParsed = socket().readableLength === 0
      buffer = Buffer.allocUnsafeSlow(allIsParsed ? mostBytes : READ_BYTES)
      return read
    }
    if (read.length > READ_BYTES) buffer = Buffer.allocUnsafeSlow(READ_BYTES)
    const bytes = Buffer.allocUnsafeSlow(length)
    read.copy(bytes)
    return bytes
  }
  const callback = (length: number) => {
    const bytes = take(length)
    if (accepts(bytes)) return socket().push(bytes)
    socket().destroy(new UpstreamFailure('protocol'))
    return false
  }
  return {
    host: hostname,
    port: Number(port),
    onread: { buffer: () => buffer, callback },
  }
}
