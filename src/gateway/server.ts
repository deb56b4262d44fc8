import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import Fastify, { type FastifyInstance, type FastifyReply } from 'fastify'
import type { Logger } from 'pino'
import type { Config } from '../config/schema.ts'
import { denied } from '../domain/verdict.ts'
import { noSchemas } from '../observability/no-schemas.ts'
import type { RequestObservation, RequestObserver } from '../observability/request-observer.ts'
import type { ClientConnections } from './client-connections.ts'
import { type Gateway, handleRequest } from './handle-request.ts'
import { rawRefusalOf, reasonOfParserError } from './parser-refusal.ts'
import { MAX_HEADER_FIELDS } from './request-head.ts'
import { dropStrayKeys } from './stray-keys.ts'

/** A head over this is refused by Node's parser itself; our own limits below it name what was too large. */
const MAX_HEAD_LENGTH = 24 * 1024

/** How long a connection may be silent beyond the longest wait that is the upstream's. */
const SILENCE_MS = 5_000

/** The public listener: limits, and one way for every request. It does not listen yet. */
export function createServer(
  config: Config['gateway'],
  deps: { observer: RequestObserver; connections: ClientConnections; longestAnswerMs: number },
): FastifyInstance {
  const app = Fastify({
    logger: false,
    schemaController: noSchemas,
    // One route for all: the router must neither decode a path nor answer for one.
    rewriteUrl: () => '/',
    exposeHeadRoutes: false,
    requestIdHeader: false,
    genReqId: () => '',
    // On close, requests on kept-alive connections are still served: a rolling restart loses none.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    keepAliveTimeout: config.keepAliveTimeoutMs,
    // A client that takes nothing of an answer is cut; whatever the upstream may take is not silence yet.
    connectionTimeout: deps.longestAnswerMs + SILENCE_MS,
    requestTimeout: config.headersTimeoutMs,
    http: {
      maxHeaderSize: MAX_HEAD_LENGTH,
      headersTimeout: config.headersTimeoutMs,
      connectionsCheckingInterval: Math.min(1000, config.headersTimeoutMs),
      // Node would answer a missing Host with an empty 400; the check of the head answers in our form.
      requireHostHeader: false,
      insecureHTTPParser: false,
      // No stream is made for the body that a GET does not have: it costs a tenth of a request.
      optimizeEmptyRequests: true,
    },
    clientErrorHandler: (error, socket) => {
      // Whoever has reset the connection hears no answer, and whoever never sent a byte made no request.
      const silent = error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && socket.bytesRead === 0
      if (silent || error.code === 'ECONNRESET' || !socket.writable) socket.destroy()
      else refuseBytes(socket, reasonOfParserError(error.code))
    },
  })
  const { server } = app
  server.maxHeadersCount = MAX_HEADER_FIELDS
  // A GET never gets a 100: an expectation is refused with the head, like any other request.
  for (const event of ['checkContinue', 'checkExpectation']) {
    server.on(event, (request: IncomingMessage, response: ServerResponse) => {
      server.emit('request', request, response)
    })
  }
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => refuseBytes(socket, 'unknown_route'))
  return app

  function refuseBytes(socket: Duplex, reason: ReturnType<typeof reasonOfParserError>): void {
    const refusal = rawRefusalOf(reason)
    deps.observer.refusedByParser(reason, refusal.requestId, refusal.status)
    deps.connections.end(socket, refusal.bytes)
  }
}

/** Every request goes through here, whatever its method: hooks run before a body would be parsed. */
export function serveRequests(
  app: FastifyInstance,
  gateway: Gateway,
  deps: { logger: Logger; connections: ClientConnections; draining: () => boolean },
): void {
  app.addHook('onRequest', (request, reply, _continue) => {
    const { socket } = request.raw
    if (!deps.connections.begin(socket)) return
    dropStrayKeys(request.raw, gateway.keyCheck.format)
    const seen = gateway.observer.begin(request.raw)
    // It comes after the last byte as well as after an abort; Fastify's onResponse does not come after an abort.
    reply.raw.on('close', () => {
      deps.connections.ended(socket)
      gateway.observer.end(seen, reply.raw)
    })
    if (deps.draining()) {
      // What follows on this connection would lose its answer: it is not begun, so that it can be asked elsewhere.
      deps.connections.condemn(socket)
      reply.raw.setHeader('connection', 'close')
    }
    try {
      handleRequest(gateway, request, reply, seen)?.catch((error: unknown) => fail(reply, seen, error))
    } catch (error) {
      fail(reply, seen, error)
    }
  })

  function fail(reply: FastifyReply, seen: RequestObservation, error: unknown): void {
    deps.logger.error({ err: error, requestId: seen.requestId }, 'request failed')
    if (reply.sent || reply.raw.headersSent) reply.raw.destroy()
    else gateway.answer.refuse(reply, seen, denied('internal_error'), true)
  }
  // The hook answers first; this makes Fastify run it for methods and paths that have no route.
  app.setNotFoundHandler(() => {
    throw new Error('A request passed the hook that answers all of them')
  })
}
