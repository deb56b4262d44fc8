import { Socket } from 'node:net'
import { type buildConnector, errors } from 'undici'

/**
 * The most that one read takes. It bounds what is held for a client that reads nothing: this buffer, and a copy of the
 * piece of the body that the system did not take. Half of it makes long bodies dearer, twice as much does not make them
 * cheaper.
 */
export const READ_BYTES = 32 * 1024

/** A silent connection is asked by the system whether its other end is still there. */
const PROBED_AFTER_MS = 60_000

/** @returns what makes one plain TCP connection, or fails with its error or at the deadline */
export function plainConnector(timeoutMs: number): buildConnector.connector {
  return ({ hostname, port }, connected) => {
    const socket = new UpstreamSocket()
    const deadline = setTimeout(() => socket.destroy(new errors.ConnectTimeoutError()), timeoutMs)
    const failed = (error: Error) => {
      clearTimeout(deadline)
      connected(error, null)
    }
    socket.once('error', failed)
    socket.connect(Number(port), hostname, () => {
      clearTimeout(deadline)
      socket.off('error', failed)
      connected(null, socket)
    })
  }
}

/**
 * A connection that undici's parser reads in the very turn in which bytes arrive. Node's own makes a buffer of 64 KB for
 * each read, cuts it, and hands it over through the queue of a stream a tick later. Of a stream's reading side this has
 * what undici uses: `readable`, `read()` without a size, `unshift`, `end`; nothing is read from the system while
 * something waits to be taken.
 */
export class UpstreamSocket extends Socket {
  #buffer = Buffer.allocUnsafeSlow(READ_BYTES)
  /** Read, and not yet taken. */
  #waiting: Buffer | null = null
  #stopped = false
  /** Whether the parser takes nothing more for now. */
  #parserPaused = false
  /** Whether bytes read before may still be in use, so that the next ones are passed on as a copy. */
  #copies = false
  #released = false

  constructor() {
    super({
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: PROBED_AFTER_MS,
      onread: { buffer: () => this.#buffer, callback: length => this.#arrived(length) },
    })
  }

  /**
   * Declares that the bytes read so far are no longer in use: the next read may overwrite them. Without this call the next
   * response is copied. A call too early is a security fault: the bytes may then be another client's response.
   */
  release(): void {
    this.#released = true
  }

  override read(size?: number): Buffer | null {
    const bytes = this.#waiting
    if (size === 0) return bytes === null ? super.read(0) : null
    this.#waiting = null
    if (bytes === null && this.#stopped) this.#goOn()
    return bytes
  }

  /**
   * Takes back bytes that the parser does not accept yet, because its reader is slow. The parser also calls this without
   * bytes: then the socket reads no further ahead.
   */
  override unshift(bytes: Buffer): void {
    this.#parserPaused = true
    if (bytes.length > 0) this.#waiting = bytes
  }

  #goOn(): void {
    this.#stopped = false
    this.#parserPaused = false
    super.read(0)
  }

  /** @returns whether to go on reading */
  #arrived(length: number): boolean {
    const bytes = this.#buffer.subarray(0, length)
    this.#waiting = this.#copies ? ownCopyOf(bytes) : bytes
    this.#released = false
    this.#parserPaused = false
    this.emit('readable')
    this.#stopped = this.#waiting !== null || this.#parserPaused
    if (!this.#released && !this.#copies) this.#buffer = Buffer.allocUnsafeSlow(READ_BYTES)
    this.#copies = !this.#released
    return !this.#stopped
  }
}

/** With memory of its own: a part of Node's shared pool keeps all 64 KB of it. */
export function ownCopyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(copy)
  return copy
}
