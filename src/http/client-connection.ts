import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { ReadAheadBudget, ReadAheadShare } from './read-ahead-budget.ts'
import { RequestBoundaries } from './request-boundaries.ts'

/** The most requests of one connection that wait for their responses at a time. */
export const MAX_PIPELINED = 8

/** How long further input is read and discarded after the last response has been sent. */
const LINGER_MS = 500

const CONNECT_FIRST_BYTE = 'C'.charCodeAt(0)

const CONNECTIONS = new WeakMap<Socket, ClientConnection>()

/** Node's HTTP parser, as the listeners that Node's server puts on a socket. */
interface Parser {
  readonly parse: (bytes: Buffer) => void
  readonly end: () => void
}

export interface ConnectionOptions {
  /**
   * Of the socket: half of the time that a client has to read, because the client may have read something at the start of
   * the first half.
   */
  readonly idleTimeoutMs: number
  readonly readAheadBudget: ReadAheadBudget
  /** Whether a client that half-closes while a forwarded request waits for its response has left. */
  readonly abortOnClose: boolean
}

/**
 * Decides when Node's parser receives which bytes of a client's connection. By itself the parser turns all bytes of a
 * segment into requests at once. Here it receives one request at a time, and none while too many responses are pending
 * or the client does not read its responses.
 */
export class ClientConnection {
  readonly #socket: Socket
  readonly #parser: Parser
  readonly #boundaries = new RequestBoundaries()
  readonly #offers = new OfferFilter()
  #state: ConnectionState = { kind: 'open' }
  /** Received and not yet passed to the parser. */
  #unparsed: Buffer | null = null
  /** Node's server also pauses a connection while many bytes wait to be written. Do not call its parser then. */
  #reading: 'flowing' | 'paused' | 'paused_by_server' = 'flowing'
  #pendingResponses = 0
  #hasHadRequest = false
  /** Response to the request whose body is being received. */
  #receivingBody: ServerResponse | null = null
  /** Response to the last request with a body, until it closes. */
  #lastWithBody: ServerResponse | null = null
  /** Null if a client that half-closes gets all its responses. */
  readonly #forwarded: ForwardedRequests | null
  readonly #idleTimeoutMs: number
  readonly #readAhead: ReadAheadShare

  /** @param socket must have no other reader */
  constructor(socket: Socket, parser: Parser, options: ConnectionOptions) {
    this.#socket = socket
    this.#parser = parser
    this.#idleTimeoutMs = options.idleTimeoutMs
    this.#readAhead = options.readAheadBudget.share()
    this.#forwarded = options.abortOnClose ? new ForwardedRequests() : null
    CONNECTIONS.set(socket, this)
    // Node's server sets it without TLS only.
    socket.allowHalfOpen = true
    socket.on('data', (bytes: Buffer) => this.#receive(bytes))
    socket.on('end', () => this.#receiveEnd())
    socket.on('resume', () => {
      this.#reading = 'flowing'
      this.#readAhead.release()
      this.#proceed()
    })
    socket.on('close', () => this.#discardInput())
    // Node's server removes its own listener after a CONNECT: a reset would then end the process. `close` follows.
    socket.on('error', () => {})
    // Node's server calls it after the last response. Node's own version resets a connection that has unread bytes.
    socket.destroySoon = () => this.#close()
  }

  static of(socket: Socket): ClientConnection | undefined {
    return CONNECTIONS.get(socket)
  }

  /** Whether a request has been received in part. */
  get isWithinRequest(): boolean {
    return !this.#boundaries.isBetweenRequests
  }

  /** `request`: its client has not sent a request to the end; `next_request`: it is idle between two. */
  get waitsFor(): 'request' | 'next_request' | 'response' {
    const isReceivingBody = this.#receivingBody?.headersSent === false
    const complete = isReceivingBody ? this.#pendingResponses - 1 : this.#pendingResponses
    if (complete > 0) return 'response'
    return this.isWithinRequest || !this.#hasHadRequest ? 'request' : 'next_request'
  }

  /** Whether it is between two requests: all responses have left. */
  get isIdle(): boolean {
    return this.#state.kind !== 'closing' && this.waitsFor === 'next_request'
  }

  /** Length of the latest request line, as far as it has been received. */
  get requestLineLength(): number {
    return this.#boundaries.lineLength
  }

  /** Call when the parser has read a head. */
  beginRequest({ headers }: IncomingMessage, response: ServerResponse): void {
    const hasBody = this.#boundaries.endHead(headers)
    if (hasBody) {
      this.#receivingBody = response
      this.#lastWithBody = response
    }
    this.#pendingResponses++
    this.#hasHadRequest = true
    response.on('close', onResponseClosed)
    // With a body, #mayParse waits for its response, after which Node's server closes the connection.
    if (!response.shouldKeepAlive && !hasBody) this.closeAfterPending()
  }

  /** A response was sent or aborted. */
  endResponse(response: ServerResponse): void {
    this.#pendingResponses--
    if (response === this.#lastWithBody) this.#lastWithBody = null
    this.#forwarded?.delete(response)
    this.#disconnectIfLeft()
    if (this.#unparsed === null) this.#proceed()
    else queueMicrotask(() => this.#resume())
  }

  /** Call before a request is forwarded. @returns false if it must not be: its client has left, and `close` follows */
  awaitUpstream(request: ForwardedRequest): boolean {
    if (this.#forwarded === null) return true
    this.#forwarded.add(request)
    this.#disconnectIfLeft()
    return !this.#socket.readableEnded
  }

  /** Earlier responses of the gateway itself are sent first. What follows could not be sent in order. */
  #disconnectIfLeft(): void {
    if (this.#socket.readableEnded && this.#forwarded?.isNextExpected === true) this.#socket.destroy()
  }

  /** Runs after the ticks that follow a response, because one of them would first deliver more bytes of the stream. */
  #resume(): void {
    if (this.#reading === 'paused') this.#socket.resume()
  }

  /** Closes the connection after the pending responses. No further request is parsed. */
  closeAfterPending(): void {
    if (!this.#isOpen) return
    this.#state = { kind: 'last_responses' }
    this.#discardInput()
  }

  /** Rejects invalid input and closes the connection after the pending responses. @param build returns a complete response */
  reject(build: () => string): void {
    // A request whose response has begun gets no second response if its body turns out to be invalid.
    if (this.#receivingBody?.headersSent === true) this.closeAfterPending()
    if (this.#isOpen) this.#state = { kind: 'rejected', response: build() }
    this.#discardInput()
    this.#proceed()
  }

  /** No byte was received or sent for the idle time. */
  onIdle(): void {
    const socket = this.#socket
    if (socket.writableLength > 0) disconnect(socket)
    else if (this.#pendingResponses > 0 || this.isWithinRequest || socket.bytesRead === 0) {
      // The upstream exchange and the rest of a request have their own deadlines.
      socket.setTimeout(this.#idleTimeoutMs)
    } else socket.destroy()
  }

  get #isOpen(): boolean {
    return (this.#state.kind === 'open' || this.#state.kind === 'half_closed') && !this.#socket.destroyed
  }

  #receive(bytes: Buffer): void {
    if (this.#isOpen) {
      this.#unparsed = this.#unparsed === null ? bytes : Buffer.concat([this.#unparsed, bytes])
      this.#proceed()
    } else if (!this.#socket.writableFinished) {
      // Only now: a paused socket does not notice that the client closes the connection.
      this.#socket.pause()
    }
  }

  #receiveEnd(): void {
    if (this.#state.kind === 'open') this.#state = { kind: 'half_closed' }
    this.#disconnectIfLeft()
    this.#proceed()
  }

  /** Parses as much input as allowed now, or closes the connection after its last response. */
  #proceed(): void {
    while (this.#unparsed !== null && this.#reading === 'flowing' && this.#mayParse(this.#unparsed))
      this.#parse(this.#unparsed)
    if (this.#unparsed !== null) this.#pauseWith(this.#unparsed)
    else if (this.#state.kind !== 'open' && this.#responsesDue() === 0 && !this.#socket.destroyed)
      this.#finish()
  }

  /** Buffers these bytes and pauses the socket. If the budget of all connections is used up, the connection closes. */
  #pauseWith(bytes: Buffer): void {
    if (!this.#readAhead.set(bytes.buffer.byteLength)) this.closeAfterPending()
    if (this.#reading !== 'flowing') return
    this.#reading = 'paused'
    this.#socket.pause()
  }

  #discardInput(): void {
    this.#unparsed = null
    this.#readAhead.release()
  }

  /** The parser runs handlers, which may change the state. */
  #parse(bytes: Buffer): void {
    const length = this.#boundaries.take(bytes)
    const isAll = length === bytes.length
    const taken = isAll ? bytes : bytes.subarray(0, length)
    this.#unparsed = isAll ? null : bytes.subarray(length)
    this.#parser.parse(this.#boundaries.isWithinHead ? this.#offers.filter(taken) : taken)
    if (this.#socket.isPaused()) this.#reading = 'paused_by_server'
    if (this.#receivingBody?.req.complete === true) {
      this.#receivingBody = null
      this.#boundaries.endRequest()
    }
  }

  /** The rest of a request is always parsed: Node's request timeout limits it. */
  #mayParse(bytes: Buffer): boolean {
    if (!this.#isOpen) return false
    if (this.isWithinRequest) return true
    // The response to a request with a body may close the connection, even before the body is complete (413).
    if (this.#lastWithBody !== null) return false
    // After a CONNECT Node's server no longer sends the pending responses.
    const max = bytes[0] === CONNECT_FIRST_BYTE ? 1 : MAX_PIPELINED
    return this.#pendingResponses < max && this.#socket.writableLength === 0
  }

  /** A request whose body was cut off gets a response only if that response has begun. */
  #responsesDue(): number {
    const mayBeCutOff = this.#state.kind === 'half_closed' || this.#state.kind === 'rejected'
    const isCutOff = mayBeCutOff && this.#receivingBody?.headersSent === false
    return isCutOff ? this.#pendingResponses - 1 : this.#pendingResponses
  }

  #finish(): void {
    // Node's server then closes our side too, or reports a request that was cut off, which is rejected.
    if (this.#state.kind === 'half_closed') this.#parser.end()
    else if (this.#state.kind === 'rejected') this.#close(this.#state.response)
    else this.#close()
  }

  /**
   * Closes our side. Further input is read and discarded for a moment: the system resets a connection that closes with
   * unread bytes, and the last response may be lost with it (RFC 9112, section 9.6).
   */
  #close(lastResponse = ''): void {
    if (this.#state.kind === 'closing') return
    this.#state = { kind: 'closing' }
    this.#discardInput()
    const socket = this.#socket
    socket.setTimeout(this.#idleTimeoutMs)
    socket.end(lastResponse, () => {
      const deadline = setTimeout(() => socket.destroy(), LINGER_MS)
      socket.once('close', () => clearTimeout(deadline))
      socket.resume()
    })
  }
}

function onResponseClosed(this: ServerResponse): void {
  CONNECTIONS.get(this.req.socket)?.endResponse(this)
}

/** The state of a client's connection. */
type ConnectionState =
  | { readonly kind: 'open' }
  /** The client has closed its side; its responses are still sent (RFC 9112, section 9.6). */
  | { readonly kind: 'half_closed' }
  /** The pending responses are the last ones: all further input is discarded. */
  | { readonly kind: 'last_responses' }
  /** As above, followed by this complete response. */
  | { readonly kind: 'rejected'; readonly response: string }
  /** Our side of the connection is closed. */
  | { readonly kind: 'closing' }

/** Closes at once. Without TLS, also discards what the kernel buffers for the client: Node cannot reset a TLS socket. */
export function disconnect(socket: Socket): void {
  if (socket instanceof TLSSocket) socket.destroy()
  else socket.resetAndDestroy()
}

const OFFER = /\nupgrade:/i
const NAME_END = /(?<=\nupgrade)(?=:)/gi
const LONGEST_PART = '\nupgrade'.length

/**
 * Renames the field `Upgrade` in the heads of a connection, so that Node's parser never reads an offer to upgrade. A
 * server may ignore an offer (RFC 9110, section 7.8), but Node's parser hides every error in the input that follows one,
 * up to the end of the next head: malformed input would get no response, and its connection would stay open.
 */
export class OfferFilter {
  /**
   * The last characters so far, because a field name may be split between two segments. A head that follows another begins
   * with a request line, never with a field.
   */
  #tail = ''

  /** @param bytes the next bytes of a head, not beyond its end */
  filter(bytes: Buffer): Buffer {
    const tail = this.#tail
    const text = tail + bytes.toString('latin1')
    this.#tail = text.slice(-LONGEST_PART)
    if (!OFFER.test(text)) return bytes
    return Buffer.from(text.replaceAll(NAME_END, '-ignored').slice(tail.length), 'latin1')
  }
}

/** A request whose response comes from the upstream. */
export interface ForwardedRequest {
  readonly response: ServerResponse
  /** In flight until the response is handed over to Node. */
  readonly observation: { readonly isInFlight: boolean }
}

/** The forwarded requests of one connection, of which there are few. */
export class ForwardedRequests {
  readonly #requests: ForwardedRequest[] = []

  add(request: ForwardedRequest): void {
    if (!this.#requests.includes(request)) this.#requests.push(request)
  }

  /** Call when a response has closed, also that of a request that was not forwarded. */
  delete(response: ServerResponse): void {
    const index = this.#requests.findIndex(request => request.response === response)
    if (index >= 0) this.#requests.splice(index, 1)
  }

  /** Whether the response that is to be sent next is still expected from the upstream. */
  get isNextExpected(): boolean {
    return this.#requests.some(({ response, observation }) => {
      // Node assigns the socket to one response at a time, in the order of the requests.
      return response.socket !== null && observation.isInFlight
    })
  }
}
