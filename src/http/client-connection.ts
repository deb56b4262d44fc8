import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { ConnectionState } from './connection-state.ts'
import { disconnect } from './disconnect.ts'
import type { HeldBytes, HeldShare } from './held-bytes.ts'
import { RequestBoundaries } from './request-boundaries.ts'

/** Requests of one connection that may be unanswered at a time. */
export const MAX_UNANSWERED = 8

/** How long bytes are still read, and dropped, after the last answer has been sent. */
const LINGER_MS = 500

const FIRST_OF_CONNECT = 'C'.charCodeAt(0)

const CONNECTIONS = new WeakMap<Socket, ClientConnection>()

/** What Node's server does with the bytes of a connection, and with their end. */
export interface Parser {
  readonly parse: (bytes: Buffer) => void
  readonly end: () => void
}

/**
 * A client's connection: it decides when Node's parser receives which bytes. The parser turns all bytes of a segment into
 * requests before anything can stop it. Here it receives one request at a time, and none while too many are unanswered or
 * the client does not read its answers.
 */
export class ClientConnection {
  readonly #socket: Socket
  readonly #parser: Parser
  readonly #boundaries = new RequestBoundaries()
  #state: ConnectionState = { kind: 'open' }
  /** Received and not yet handed to the parser. */
  #rest: Buffer | null = null
  /** Node's server holds a connection too, while much waits to be written; its parser must not be called then. */
  #reading: 'flowing' | 'held' | 'held_by_server' = 'flowing'
  #unanswered = 0
  /** To the request whose body is being received. */
  #receiving: ServerResponse | null = null
  /** To the last request with a body, until it has left. */
  #withBody: ServerResponse | null = null
  readonly #idleTimeoutMs: number
  readonly #held: HeldShare

  /**
   * @param socket which nothing else reads
   * @param idleTimeoutMs of the socket: half of the time that a client has to read, because the first half may have begun
   * with some progress
   */
  constructor(socket: Socket, parser: Parser, idleTimeoutMs: number, heldByAll: HeldBytes) {
    this.#socket = socket
    this.#parser = parser
    this.#idleTimeoutMs = idleTimeoutMs
    this.#held = heldByAll.share()
    CONNECTIONS.set(socket, this)
    // Node's server sets it where there is no TLS.
    socket.allowHalfOpen = true
    socket.on('data', (bytes: Buffer) => this.#receive(bytes))
    socket.on('end', () => this.#receiveEnd())
    socket.on('resume', () => {
      this.#reading = 'flowing'
      this.#held.release()
      this.#proceed()
    })
    socket.on('close', () => this.#drop())
    // Node's server removes its own listener after a CONNECT; then a client's reset would end the process. `close` follows.
    socket.on('error', () => {})
    // Node's server calls it after the last answer. Its own would reset a connection with bytes unread.
    socket.destroySoon = () => this.#end()
  }

  static of(socket: Socket): ClientConnection | undefined {
    return CONNECTIONS.get(socket)
  }

  /** Whether a request has been received in part. */
  get isWithinRequest(): boolean {
    return !this.#boundaries.isBetweenRequests
  }

  /** Length of the request line that was received last, or of its beginning. */
  get requestLineLength(): number {
    return this.#boundaries.lineLength
  }

  /** The parser has read a head. @returns false where the request must not be handled */
  begin({ headers }: IncomingMessage, response: ServerResponse): boolean {
    if (!this.#isOpen) return false
    const hasBody = this.#boundaries.endHead(headers)
    if (hasBody) {
      this.#receiving = response
      this.#withBody = response
    }
    this.#unanswered++
    response.on('close', onAnswerClosed)
    // A body is still read; its answer is then awaited before anything else is, and Node's server ends the connection.
    if (!response.shouldKeepAlive && !hasBody) this.endAfterAnswers()
    return true
  }

  /** An answer has left, or never will. */
  settle(response: ServerResponse): void {
    this.#unanswered--
    if (response === this.#withBody) this.#withBody = null
    if (this.#rest === null || this.#reading === 'flowing') this.#proceed()
    else if (this.#reading === 'held') queueMicrotask(() => this.#resume())
  }

  /** After the ticks that are due when an answer leaves: one of the stream would first hand over more bytes. */
  #resume(): void {
    if (this.#reading === 'held' && this.#rest !== null && this.#mayParse(this.#rest)) this.#socket.resume()
  }

  /** Reads no further request: the answers that are due are the last. */
  endAfterAnswers(): void {
    if (!this.#isOpen) return
    this.#state = { kind: 'last_answers' }
    this.#drop()
  }

  /** Ends the connection after the answers that are due. @param answer writes a whole one, to what cannot be read */
  refuse(answer: () => string): void {
    // A request that is already being answered gets no second answer, however its body ends.
    if (this.#receiving?.headersSent === true) this.endAfterAnswers()
    if (this.#isOpen) this.#state = { kind: 'refused', answer: answer() }
    this.#drop()
    this.#proceed()
  }

  /** Nothing has moved for the idle time. */
  timeOut(): void {
    const socket = this.#socket
    if (socket.writableLength > 0) disconnect(socket)
    else if (this.#unanswered > 0 || this.isWithinRequest || socket.bytesRead === 0) {
      // The upstream and what is left of a request have deadlines of their own.
      socket.setTimeout(this.#idleTimeoutMs)
    } else socket.destroy()
  }

  get #isOpen(): boolean {
    return (this.#state.kind === 'open' || this.#state.kind === 'half_closed') && !this.#socket.destroyed
  }

  #receive(bytes: Buffer): void {
    if (this.#isOpen) {
      this.#rest = this.#rest === null ? bytes : Buffer.concat([this.#rest, bytes])
      this.#proceed()
    } else if (!this.#socket.writableFinished) {
      // Not before: while it reads, it notices that the client closes the connection.
      this.#socket.pause()
    }
  }

  #receiveEnd(): void {
    if (this.#state.kind === 'closing') this.#socket.destroy()
    if (this.#state.kind === 'open') this.#state = { kind: 'half_closed' }
    this.#proceed()
  }

  /** Hands to the parser what it may have, or ends the connection where all answers have left. */
  #proceed(): void {
    while (this.#rest !== null && this.#reading === 'flowing' && this.#mayParse(this.#rest))
      this.#parse(this.#rest)
    if (this.#rest !== null) this.#hold(this.#rest)
    if (this.#rest !== null || this.#state.kind === 'open') return
    if (this.#answersDue() === 0 && !this.#socket.destroyed) this.#finish()
  }

  /** Keeps these bytes, and reads no more; where all connections hold too much already, this one ends instead. */
  #hold(bytes: Buffer): void {
    if (!this.#held.take(bytes.buffer.byteLength)) this.endAfterAnswers()
    if (this.#reading !== 'flowing') return
    this.#reading = 'held'
    this.#socket.pause()
  }

  #drop(): void {
    this.#rest = null
    this.#held.release()
  }

  /** The parser runs within: the state may be another one afterwards. */
  #parse(bytes: Buffer): void {
    const length = this.#boundaries.take(bytes)
    const isAll = length === bytes.length
    this.#rest = isAll ? null : bytes.subarray(length)
    this.#parser.parse(isAll ? bytes : bytes.subarray(0, length))
    if (this.#socket.isPaused()) this.#reading = 'held_by_server'
    if (this.#receiving?.req.complete === true) {
      this.#receiving = null
      this.#boundaries.endRequest()
    }
  }

  /** What is left of a request that was read in part is always read: its time is limited. */
  #mayParse(bytes: Buffer): boolean {
    if (!this.#isOpen) return false
    if (this.isWithinRequest) return true
    // The answer to a body may end the connection, also before the body is whole (413).
    if (this.#withBody !== null) return false
    // After a CONNECT Node's server no longer drives the answers that are due.
    const most = bytes[0] === FIRST_OF_CONNECT ? 1 : MAX_UNANSWERED
    return this.#unanswered < most && this.#socket.writableLength === 0
  }

  /** A request whose body will never be whole has no answer but one that is under way. */
  #answersDue(): number {
    const mayBeCutOff = this.#state.kind === 'half_closed' || this.#state.kind === 'refused'
    const isCutOff = mayBeCutOff && this.#receiving?.headersSent === false
    return isCutOff ? this.#unanswered - 1 : this.#unanswered
  }

  #finish(): void {
    if (this.#state.kind === 'half_closed') this.#endOfInput()
    else if (this.#state.kind === 'refused') this.#end(this.#state.answer)
    else this.#end()
  }

  /** Node's server ends our side too, or finds a request cut off, which is refused. */
  #endOfInput(): void {
    const halfClosed = this.#state
    this.#parser.end()
    if (this.#state === halfClosed) this.#state = { kind: 'closing' }
  }

  /**
   * Ends our side. What the client still sends is read and dropped for a moment: closed with bytes unread, a connection is
   * reset, and the last answer may be lost with it (RFC 9112, section 9.6).
   */
  #end(answer = ''): void {
    if (this.#state.kind === 'closing') return
    this.#state = { kind: 'closing' }
    this.#drop()
    const socket = this.#socket
    socket.setTimeout(this.#idleTimeoutMs)
    socket.end(answer, () => {
      if (socket.readableEnded) socket.destroy()
      if (socket.destroyed) return
      const deadline = setTimeout(() => socket.destroy(), LINGER_MS)
      socket.once('close', () => clearTimeout(deadline))
      socket.resume()
    })
  }
}

function onAnswerClosed(this: ServerResponse): void {
  CONNECTIONS.get(this.req.socket)?.settle(this)
}
