import type { IncomingMessage, ServerResponse } from 'node:http'
import Fastify, { type FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Config } from '../config/schema.ts'
import { denied } from '../domain/denial.ts'
import { guardConnections } from '../http/guard-connections.ts'
import { onHandedOver } from '../http/hand-over.ts'
import { noSchemas } from '../observability/no-schemas.ts'
import type { RequestObserver } from '../observability/request-observer.ts'
import type { ClientRequest } from '../upstream/client-request.ts'
import { type Gateway, handleRequest } from './handle-request.ts'
import { rawRefusalOf } from './parser-refusal.ts'
import { closeAfter } from './refuse.ts'
import { MAX_HEADER_FIELDS } from './request-head.ts'
import { dropStrayKeys } from './stray-keys.ts'

/** A head over this is refused by Node's parser itself; our own limits below it name what was too large. */
const MAX_HEAD_LENGTH = 24 * 1024

/** The public listener: limits, and one way for every request. It does not listen yet. */
export function createServer(config: Config['gateway'], observer: RequestObserver): FastifyInstance {
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
  })
  const { server } = app
  server.maxHeadersCount = MAX_HEADER_FIELDS
  // A GET never gets a 100: an expectation is refused with the head, like any other request.
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    server.emit('request', request, response)
  })
  guardConnections(server, {
    stallTimeoutMs: config.headersTimeoutMs,
    answerTo: fault => {
      const refusal = rawRefusalOf(fault)
      observer.refusedByParser(fault, refusal.requestId, refusal.status)
      return refusal.bytes
    },
  })
  return app
}

/** Every request of every method goes through here: hooks run before a body would be parsed. */
export function serveRequests(
  app: FastifyInstance,
  gateway: Gateway,
  deps: { logger: Logger; draining: () => boolean },
): void {
  app.addHook('onRequest', (incoming, reply, _continue) => {
    // The documented way to answer past Fastify, whose serialisers and hooks have nothing to do here.
    reply.hijack()
    const message = incoming.raw
    const response = reply.raw
    dropStrayKeys(message, gateway.credentials.prefix)
    const observation = gateway.observer.begin(message)
    const request = { message, response, observation }
    onHandedOver(response, () => gateway.observer.handedOver(observation))
    // After the last byte as well as after an abort; Fastify's onResponse does not follow an abort.
    response.on('close', () => gateway.observer.end(observation, response))
    // A further request of this connection would lose its answer: unread, it can be sent again elsewhere.
    if (deps.draining()) closeAfter(request)
    try {
      handleRequest(gateway, request, incoming.originalUrl)?.catch((error: unknown) => fail(request, error))
    } catch (error) {
      fail(request, error)
    }
  })

  function fail(request: ClientRequest, error: unknown): void {
    deps.logger.error({ err: error, requestId: request.observation.requestId }, 'request failed')
    if (request.response.headersSent) request.response.destroy()
    else gateway.refuse(request, denied('internal_error'), true)
  }
  // The hook answers first; this makes Fastify run it for methods and paths that have no route.
  app.setNotFoundHandler(() => {
    throw new Error('A request passed the hook that answers all of them')
  })
}
