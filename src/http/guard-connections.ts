import type { EventEmitter } from 'node:events'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Server as HttpsServer } from 'node:https'
import type { Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import { ClientConnection, type ConnectionOptions, type ForwardedRequest } from './client-connection.ts'
import { explainParserError, findIrregularity, hasTwoHosts, TWO_HOSTS } from './malformed-request.ts'
import { ReadAheadBudget } from './read-ahead-budget.ts'
import { hasBody } from './request-boundaries.ts'

/** A longer request line is rejected with 414, also if other parts are too large. */
const MAX_TARGET_LENGTH = 8 * 1024

/** Bytes that all connections of a server together buffer ahead of the parser. */
const MAX_READ_AHEAD_BYTES = 32 * 1024 * 1024

/** Why input that never became a request is rejected, which closes the connection. */
export type ConnectionFault =
  | 'malformed_request'
  | 'url_too_long'
  | 'headers_too_large'
  | 'request_timeout'
  | 'expectation_failed'
  | 'unknown_route'

export interface GuardOptions {
  /** Time after which a client that does not read its responses is disconnected. */
  readonly stallTimeoutMs: number
  /**
   * Returns a complete response, head and body, with `Connection: close`. Called at most once per connection.
   * @param cause of a malformed request, as a text for the client; it holds no input of the client
   */
  readonly responseTo: (fault: ConnectionFault, cause?: string) => string
  /** Rejects a request with two `Host` fields, where the listener's own handler does not. */
  readonly rejectTwoHosts?: boolean
  readonly maxReadAheadBytes?: number
  /** Whether a client that half-closes while a forwarded request waits for its response has left; false by default. */
  readonly abortOnClose?: boolean
}

/**
 * Puts a `ClientConnection` between each socket of a server and Node's parser. Input that never becomes a request is
 * rejected in order, with the last response of its connection. Call it when the server has its handler, before it
 * listens.
 *
 * It takes over the listeners that Node's server has put on the socket. The documented way, passing a duplex stream to
 * the server, costs three times as much: 6 instead of 2 µs of processor time per request.
 */
export function guardConnections(
  server: Server | HttpsServer,
  {
    stallTimeoutMs,
    responseTo,
    maxReadAheadBytes = MAX_READ_AHEAD_BYTES,
    abortOnClose = false,
    rejectTwoHosts = false,
  }: GuardOptions,
): void {
  server.setTimeout(stallTimeoutMs / 2, (socket: Socket) => ClientConnection.of(socket)?.onIdle())
  const readAheadBudget = new ReadAheadBudget(maxReadAheadBytes)
  const sockets = guardSockets(server, { idleTimeoutMs: stallTimeoutMs / 2, readAheadBudget, abortOnClose })
  closeOnlyIdle(server, sockets, stallTimeoutMs)
  const requestListeners = takeListeners(server, 'request')
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const connection = guardedConnection(request.socket)
    const irregularity = findIrregularity(request, connection.requestLineLength)
    if (irregularity !== null) reject(request.socket, 'malformed_request', irregularity)
    else if (rejectTwoHosts && hasTwoHosts(request)) reject(request.socket, 'malformed_request', TWO_HOSTS)
    else if (readExpectation(request) === 'other') reject(request.socket, 'expectation_failed')
    else {
      connection.beginRequest(request, response)
      for (const listener of requestListeners) listener.call(server, request, response)
    }
  })
  // Otherwise Node responds to these itself, bypassing all of the above.
  const emitRequest = (request: IncomingMessage, response: ServerResponse) => {
    // Node would close the connection after a response that no 100 came before, unless the response has this field.
    if (!hasBody(request) && response.shouldKeepAlive) response.setHeader('connection', 'keep-alive')
    server.emit('request', request, response)
  }
  server.on('checkContinue', emitRequest)
  server.on('checkExpectation', emitRequest)
  server.on('connect', (_request: IncomingMessage, socket: Socket) => reject(socket, 'unknown_route'))
  takeListeners(server, 'clientError')
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    const connection = ClientConnection.of(socket)
    const fault = connection !== undefined && socket.writable ? classifyFault(error, connection) : null
    if (fault === null) socket.destroy()
    else reject(socket, fault, fault === 'malformed_request' ? explainParserError(error) : undefined)
  })

  function reject(socket: Socket, fault: ConnectionFault, cause?: string): void {
    guardedConnection(socket).reject(() => responseTo(fault, cause))
  }
}

/** @returns the sockets that are open */
function guardSockets(server: Server | HttpsServer, options: ConnectionOptions): ReadonlySet<Socket> {
  const open = new Set<Socket>()
  const event = server instanceof TlsServer ? 'secureConnection' : 'connection'
  const acceptListeners = takeListeners(server, event)
  server.on(event, (socket: Socket) => {
    const ours = socket.listeners('end')
    for (const listener of acceptListeners) listener.call(server, socket)
    const [parse] = takeListeners(socket, 'data')
    const [end] = takeListeners(socket, 'end', ours)
    if (parse === undefined || end === undefined) {
      throw new Error(
        'No data and end listener of Node’s server on its socket: this Node version is unsupported',
      )
    }
    new ClientConnection(socket, { parse, end }, options)
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
  return open
}

/**
 * Replaces the method that `close()` of Node and Fastify call, and a drain again and again. Node's own also closes a connection on which
 * a response is still being written, and with the listener ends its time limit of requests, so that one that never arrives would
 * keep the server open.
 */
function closeOnlyIdle(
  server: Server | HttpsServer,
  sockets: ReadonlySet<Socket>,
  requestTimeoutMs: number,
): void {
  let closedAtMs = Number.POSITIVE_INFINITY
  server.closeIdleConnections = () => {
    const nowMs = performance.now()
    if (!server.listening) closedAtMs = Math.min(closedAtMs, nowMs)
    const isLate = nowMs - closedAtMs >= requestTimeoutMs
    for (const socket of sockets) {
      const connection = guardedConnection(socket)
      if (connection.isIdle) socket.destroy()
      else if (isLate && connection.waitsFor === 'request') server.emit('clientError', LATE_REQUEST, socket)
    }
  }
}

/** As Node reports it while the server listens. */
const LATE_REQUEST = Object.assign(new Error('The request was not received in time'), {
  code: 'ERR_HTTP_REQUEST_TIMEOUT',
})

/**
 * Ends the connection of a response that cannot be completed, where it is its turn. Node's `destroy` leaves the connection open if the
 * response waits for earlier ones, and its beginning is sent after them.
 */
export function abortConnection(response: ServerResponse): void {
  if (response.socket === null) {
    closeConnectionAfter(response.req)
    response.once('socket', (socket: Socket) => socket.destroySoon())
  }
  response.destroy()
}

/** Closes the connection after the response to this request. Later requests on it are not read. */
export function closeConnectionAfter({ socket }: IncomingMessage): void {
  ClientConnection.of(socket)?.closeAfterPending()
}

/** Call before a request is forwarded. @returns false if it must not be: its client has left, and `close` follows */
export function awaitUpstream(request: ForwardedRequest): boolean {
  return ClientConnection.of(request.response.req.socket)?.awaitUpstream(request) ?? true
}

type Listener = (...values: unknown[]) => void

/** Removes the listeners of Node or Fastify for an event. @param kept stay in place @returns the removed listeners */
function takeListeners(
  emitter: EventEmitter,
  event: string,
  kept: readonly unknown[] = [],
): readonly Listener[] {
  // Node declares listeners without parameters, but calls these with some.
  const listeners = (emitter.listeners(event) as Listener[]).filter(listener => !kept.includes(listener))
  for (const listener of listeners) emitter.removeListener(event, listener)
  return listeners
}

function guardedConnection(socket: Socket): ClientConnection {
  const connection = ClientConnection.of(socket)
  if (connection === undefined) {
    throw new Error('The connection has no guard: call guardConnections before the server listens')
  }
  return connection
}

/** `continue`: the client may wait for a 100 before it sends a body; without a body it means nothing (RFC 9110, 10.1.1). */
function readExpectation({ headers: { expect } }: IncomingMessage): 'none' | 'continue' | 'other' {
  if (expect === undefined) return 'none'
  return expect.toLowerCase() === '100-continue' ? 'continue' : 'other'
}

/** @returns null if there is no request to respond to */
function classifyFault(
  { code }: NodeJS.ErrnoException,
  connection: ClientConnection,
): ConnectionFault | null {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return connection.isWithinRequest ? 'request_timeout' : null
    case 'HPE_HEADER_OVERFLOW':
      return connection.requestLineLength > MAX_TARGET_LENGTH ? 'url_too_long' : 'headers_too_large'
    default:
      return 'malformed_request'
  }
}
