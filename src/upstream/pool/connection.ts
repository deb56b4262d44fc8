import type { Socket } from 'node:net'
import { type buildConnector, Client, type Dispatcher } from 'undici'
import type { Config } from '../../config/schema/schema.ts'
import { readAuthorities, readCertificate } from '../../config/setting-files.ts'
import { withoutBrackets } from '../../domain/form/address.ts'
import { type Address, type ConnectDeps, connectToUpstream } from './connector.ts'
import { type SocketConnector, socketConnector } from './upstream-socket.ts'

/** Validated settings of the upstream, with its URL and the header values that were read from files. */
export type UpstreamSettings = Omit<Config['upstream'], 'url' | 'headers' | 'assertion'> & {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

/** Approximate age at which a connection is replaced, so that load follows changes of the upstream's addresses. */
const MAX_AGE_MS = 60_000

/** The connection of one client of the pool, which carries one exchange at a time. */
export class Connection {
  /** Address of the server; null without a connection. */
  address: Address | null = null
  #endsAtMs = Number.POSITIVE_INFINITY
  #socket: Socket | null = null
  #used = false
  #reused = false
  #bytesBefore = 0
  readonly #statusLines = new StatusLineCheck()

  /** @param nowMs monotonic */
  replace(socket: Socket | null, address: Address | null, nowMs: number): void {
    this.#socket = socket
    this.address = address
    // Random, so that connections opened together do not close together.
    this.#endsAtMs = nowMs + MAX_AGE_MS * (0.75 + Math.random() / 2)
    this.#used = false
    this.#reused = false
  }

  isOld(nowMs: number): boolean {
    return nowMs >= this.#endsAtMs && this.#socket?.destroyed === false
  }

  /**
   * Reserves the connection for a request, which undici writes at once or after it has checked for a turn of the event
   * loop that the connection is open. If it breaks meanwhile, the request fails as well.
   */
  claim(): void {
    this.#reused = this.#used
    this.#bytesBefore = this.#socket?.bytesRead ?? 0
  }

  /** The request is about to be written. */
  carry(): void {
    this.#used = true
    this.#statusLines.expect()
  }

  /** @returns false where these bytes, read next, are not of HTTP/1.0 or 1.1 */
  accepts(bytes: Uint8Array): boolean {
    return this.#statusLines.accepts(bytes)
  }

  /** Whether it carried an earlier exchange and no byte of this response: only then is a retry safe. */
  isUntouched(): boolean {
    return this.#reused && this.#socket?.bytesRead === this.#bytesBefore
  }
}

/** A response with a longer head counts as a protocol error. */
const MAX_HEAD_BYTES = 16 * 1024

/** Connection attempts in progress. */
interface Connecting {
  count: number
}

/** An undici client with a single connection. */
export class UpstreamClient {
  readonly connection = new Connection()
  readonly #client: Client
  readonly #nowMs: () => number

  constructor(origin: URL, deps: ConnectDeps, connecting: Connecting) {
    this.#nowMs = deps.nowMs
    this.#client = new Client(origin, {
      pipelining: 1,
      allowH2: false,
      maxHeaderSize: MAX_HEAD_BYTES,
      // The exchange has its own deadlines: undici's exclude the wait for a connection and fire up to 500 ms late.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: trackingConnector(this.connection, deps, connecting),
    })
  }

  get isConnected(): boolean {
    return this.#client.stats.connected
  }

  /** @param lastOfConnection whether the connection closes after the response */
  send(
    { path, headers }: { readonly path: string; readonly headers: Record<string, string> },
    handler: Dispatcher.DispatchHandler,
    lastOfConnection: boolean,
  ): void {
    this.connection.claim()
    // Sending `Connection: close` avoids that a later request meets a closing connection.
    const reset = lastOfConnection || this.connection.isOld(this.#nowMs())
    this.#client.dispatch({ path, method: 'GET', headers, reset }, handler)
  }

  /** Closes after the current exchange. */
  close(): Promise<void> {
    return this.#client.close()
  }

  /** Aborts the current exchange. The promise of undici's `destroy()` never rejects. */
  destroy(): Promise<void> {
    return this.#client.destroy()
  }
}

/** Always verifies TLS certificates: no setting disables it. @throws if a file holds no usable certificate or key */
export function buildUpstreamConnector({ url, connectTimeoutMs, tls }: UpstreamSettings): SocketConnector {
  return socketConnector(withoutBrackets(new URL(url).hostname), connectTimeoutMs, {
    ...readAuthorities(tls.caFile, 'upstream.tls.caFile'),
    ...readCertificate(tls, 'upstream.tls'),
  })
}

function trackingConnector(
  connection: Connection,
  deps: ConnectDeps,
  connecting: Connecting,
): buildConnector.connector {
  const accepts = (bytes: Uint8Array) => connection.accepts(bytes)
  return (options, callback) => {
    connecting.count += 1
    connectToUpstream(deps, { ...options, accepts }, (error, socket, address) => {
      connecting.count -= 1
      connection.replace(socket, address, deps.nowMs())
      if (socket === null) callback(error ?? new Error('No connection'), null)
      else callback(null, socket)
    })
  }
}

const BEGINNING = [...Buffer.from('HTTP/1.')]
const [ZERO, ONE, TWO = 0, SPACE, CR, LF] = Buffer.from('012 \r\n')
const FIRST_DIGIT = BEGINNING.length + 2
const LAST_DIGIT = FIRST_DIGIT + 2

/** Positions in a response after `HTTP/1.x 200`, whose characters are counted from 0. */
const FINAL = -1
/** The head of an interim response: another status line follows it. */
const INTERIM = -2
/** The status line behind the status. */
const REST_OF_LINE = -3

/**
 * Checks that each response of a connection begins with a status line of HTTP/1.0 or 1.1 (RFC 9112, section 4). undici's parser
 * also accepts `HTTP/0.9`, `HTTP/2.0` and `ICE/1.0`, does not report the version, and takes CR CR for the end of the line.
 */
export class StatusLineCheck {
  /** The position of the next byte. */
  #position = FINAL
  #isInterim = false
  #afterCr = false
  /** Whether the current line of an interim head is empty so far. */
  #lineIsEmpty = false

  /** Call when a request is sent: the next byte begins a response. */
  expect(): void {
    this.#position = 0
  }

  /**
   * A 100 may precede any response (RFC 9110, section 15.2), but undici fails on it: it sees a 102 in its place.
   * @param bytes the next part of a response; changed in place @returns false if it is another protocol
   */
  accepts(bytes: Uint8Array): boolean {
    for (let at = 0; this.#position !== FINAL && at < bytes.length; at++) {
      const byte = bytes[at]
      if (this.#position === LAST_DIGIT && this.#isInterim && byte === ZERO) bytes[at] = TWO
      if (this.#position === INTERIM) this.#passHeadByte(byte)
      else if (!this.#acceptsInLine(byte)) return false
    }
    return true
  }

  #acceptsInLine(byte: number | undefined): boolean {
    if (this.#position === REST_OF_LINE) return this.#acceptsToLineEnd(byte)
    const position = this.#position++
    if (position < BEGINNING.length) return byte === BEGINNING[position]
    if (position === BEGINNING.length) return byte === ZERO || byte === ONE
    if (position === BEGINNING.length + 1) return byte === SPACE
    if (position === FIRST_DIGIT) this.#isInterim = byte === ONE
    if (position === LAST_DIGIT) this.#position = REST_OF_LINE
    this.#afterCr = false
    return true
  }

  #acceptsToLineEnd(byte: number | undefined): boolean {
    if (byte === LF) {
      this.#position = this.#isInterim ? INTERIM : FINAL
      this.#lineIsEmpty = true
      return true
    }
    const isBareCr = this.#afterCr
    this.#afterCr = byte === CR
    return !isBareCr
  }

  /** Finds the end of the interim head, with CRLF or LF. The parser validates the head. */
  #passHeadByte(byte: number | undefined): void {
    if (byte === LF && this.#lineIsEmpty) this.#position = 0
    else if (byte === LF) this.#lineIsEmpty = true
    else if (byte !== CR) this.#lineIsEmpty = false
  }
}
