import { connect, isIP, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import { type buildConnector, errors } from 'undici'
import { withoutFinalDot } from '../../domain/address/host-name.ts'
import { asError } from '../../observability/failure-log.ts'
import { UpstreamFailure } from './failure.ts'
import type { Address, UpstreamAddresses } from './upstream-addresses.ts'

/** @param address server that the socket is connected to */
export type Connected = (error: Error | null, socket: Socket | null, address: Address | null) => void

export interface ConnectDeps {
  readonly addresses: UpstreamAddresses
  readonly connector: SocketConnector
  readonly connectTimeoutMs: number
  /** Monotonic, ms. */
  readonly nowMs: () => number
}

/**
 * Opens one connection to an address that can be reached. If an address fails, the next one is tried at once. If none is
 * connected after half of the timeout, a second attempt runs in parallel, and the first to connect is used. No part of a
 * request has been sent by then. Node's `autoSelectFamily` supports neither ports nor TLS, and undici's timeout fires up
 * to 500 ms late, hence this implementation.
 */
export function connectToUpstream(deps: ConnectDeps, options: ConnectOptions, connected: Connected): void {
  void new ConnectAttempt(deps, options, connected).run()
}

class ConnectAttempt {
  readonly #deps: ConnectDeps
  readonly #options: ConnectOptions
  readonly #timers: readonly NodeJS.Timeout[]
  readonly #inProgress = new Set<Address>()
  #candidates: Address[] | null = null
  #connected: Connected | null

  constructor(deps: ConnectDeps, options: ConnectOptions, connected: Connected) {
    this.#deps = deps
    this.#options = options
    this.#connected = connected
    this.#timers = [
      setTimeout(() => this.#connectNext(), deps.connectTimeoutMs / 2),
      setTimeout(() => this.#abortResponse(), deps.connectTimeoutMs),
    ]
  }

  async run(): Promise<void> {
    try {
      this.#candidates = await this.#deps.addresses.candidates()
      this.#connectNext()
    } catch (error) {
      this.#settle(asError(error), null, null)
    }
  }

  #connectNext(): void {
    const address = this.#connected === null ? undefined : this.#candidates?.shift()
    if (address === undefined) return
    this.#inProgress.add(address)
    const options = { ...this.#options, hostname: address.host, port: String(address.port) }
    this.#deps.connector(options, (error, socket) => {
      this.#inProgress.delete(address)
      if (error !== null) this.#failed(address, error)
      else this.#succeeded(address, socket)
    })
  }

  #succeeded(address: Address, socket: Socket): void {
    this.#deps.addresses.book.worked(address)
    if (this.#connected === null) socket.destroy()
    else this.#settle(null, socket, address)
  }

  #failed(address: Address, error: Error): void {
    this.#deps.addresses.book.failed(address, this.#deps.nowMs())
    this.#connectNext()
    if (this.#inProgress.size === 0) this.#settle(error, null, null)
  }

  #abortResponse(): void {
    const { addresses, nowMs } = this.#deps
    for (const address of this.#inProgress) addresses.book.failed(address, nowMs())
    const error = new Error('The upstream’s host name was not resolved before the connect timeout')
    const unresolved = Object.assign(error, { code: 'EAI_AGAIN' })
    this.#settle(this.#candidates === null ? unresolved : new errors.ConnectTimeoutError(), null, null)
  }

  #settle(error: Error | null, socket: Socket | null, address: Address | null): void {
    const connected = this.#connected
    if (connected === null) return
    this.#connected = null
    for (const timer of this.#timers) clearTimeout(timer)
    connected(error, socket, address)
  }
}

/**
 * The most that one read takes: Node itself reads 64 KiB at a time. How much may wait to be parsed before reading stops is
 * the stream's high water mark, which `main.ts` sets to as much, since a plain socket has no option for it. Both bound the
 * memory held for a client that reads nothing.
 */
export const READ_BYTES = 16 * 1024

/** A silent connection is asked by the system whether its other end is still there. */
const PROBED_AFTER_MS = 60_000

/** undici's options for a connection; its host and port are replaced by those of an address. */
interface ConnectOptions extends buildConnector.Options {
  /** Sees all bytes as they arrive. @returns false where they are another protocol */
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
  const socket: Socket = connect(socketOptions(options, () => socket))
  return socket
}

/** Always verifies the certificate: no setting disables it. */
function openSecure(tls: ConnectionOptions): (options: ConnectOptions) => Socket {
  let session: Buffer | undefined
  return options => {
    const socket: Socket = connectTls({
      ...tls,
      ...socketOptions(options, () => socket),
      session,
      rejectUnauthorized: true,
      ALPNProtocols: ['http/1.1'],
    })
    return socket.on('session', resumable => {
      session = resumable
    })
  }
}

/** Each read is copied to memory of its own: what is held of a response is neither overwritten nor more than was read. */
function socketOptions({ hostname, port, accepts }: ConnectOptions, socket: () => Socket) {
  const buffer = Buffer.allocUnsafeSlow(READ_BYTES)
  const callback = (length: number) => {
    const bytes = Buffer.allocUnsafeSlow(length)
    buffer.copy(bytes)
    if (accepts(bytes)) return socket().push(bytes)
    socket().destroy(new UpstreamFailure('protocol'))
    return false
  }
  return {
    host: hostname,
    port: Number(port),
    onread: { buffer, callback },
  }
}
