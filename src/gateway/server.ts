import Fastify, { type FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Config } from '../config/schema/schema.ts'
import { denied } from '../domain/denial.ts'
import { onHandedOver } from '../http/buffered-response.ts'
import { abortConnection, guardConnections } from '../http/guard-connections.ts'
import { noSchemas, requestTimeouts } from '../http/server-options.ts'
import type { RequestObserver } from '../observability/request-observer.ts'
import type { ClientRequest } from '../upstream/client-request.ts'
import { dropStrayKeys } from './credentials.ts'
import { type Gateway, handleRequest } from './handle-request.ts'
import { MAX_HEADER_FIELDS } from './request-head.ts'
import { announceClose, createErrorResponse, createRawDenial, type PresentDenial } from './responses.ts'

/** Node's parser rejects a longer head. Our own, lower limits tell the client which part is too large. */
const MAX_HEAD_LENGTH = 24 * 1024

/** Creates a server for requests, with its limits. The caller makes it listen. */
export function createServer(
  config: Config['gateway'],
  observer: RequestObserver,
  present: PresentDenial = createErrorResponse,
): FastifyInstance {
  const app = Fastify({
    logger: false,
    schemaController: noSchemas,
    // One route for all requests: Fastify's router must neither decode a path nor respond to one.
    rewriteUrl: () => '/',
    exposeHeadRoutes: false,
    requestIdHeader: false,
    genReqId: () => '',
    // On close, requests on kept-alive connections are still served, so that a rolling restart loses none.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    keepAliveTimeout: config.keepAliveTimeoutMs,
    requestTimeout: config.headersTimeoutMs,
    http: {
      maxHeaderSize: MAX_HEAD_LENGTH,
      ...requestTimeouts(config.headersTimeoutMs),
      // Node rejects a missing Host with an empty 400. Our check of the head responds with a JSON body.
      requireHostHeader: false,
      insecureHTTPParser: false,
      // Creates no stream for the body of a GET, which would cost a tenth of a request.
      optimizeEmptyRequests: true,
    },
  })
  const { server } = app
  server.maxHeadersCount = MAX_HEADER_FIELDS
  guardConnections(server, {
    stallTimeoutMs: config.headersTimeoutMs,
    abortOnClose: config.abortOnClose,
    responseTo: (fault, cause) => {
      const { requestId, status, bytes } = createRawDenial(fault, present, cause)
      observer.rejectedByParser(fault, requestId, status)
      return bytes
    },
  })
  return app
}

export interface ServeDeps {
  readonly logger: Logger
  readonly isDraining: () => boolean
}

/** Handles every request of every method in a hook, which runs before a body would be parsed. */
export function serveRequests(app: FastifyInstance, gateway: Gateway, deps: ServeDeps): void {
  const { reader, responder } = gateway
  const { observer } = responder
  app.addHook('onRequest', (incoming, reply, _continue) => {
    // The documented way to respond without Fastify's serialisers and hooks, which the gateway does not use.
    reply.hijack()
    const message = incoming.raw
    const response = reply.raw
    dropStrayKeys(message, reader.credentials.prefix)
    const original = reader.original(message, incoming.originalUrl)
    const observation = observer.begin(message, original?.method)
    const request = { message, response, observation }
    onHandedOver(response, () => observer.handedOver(observation))
    // `close` follows the last byte and also an abort; Fastify's onResponse does not follow an abort.
    response.on('close', () => observer.end(observation, response))
    // The next request on this connection might get no response. If it is not read, the client can retry it elsewhere.
    if (deps.isDraining()) announceClose(request)
    try {
      handleRequest(gateway, request, original)?.catch((error: unknown) => fail(request, error))
    } catch (error) {
      fail(request, error)
    }
  })

  function fail(request: ClientRequest, error: unknown): void {
    deps.logger.error({ err: error, requestId: request.observation.requestId }, 'request failed')
    if (request.response.headersSent) abortConnection(request.response)
    else responder.deny(request, denied('internal_error'), true)
  }
  // Makes Fastify run the hook for methods and paths that have no route. The hook responds first.
  app.setNotFoundHandler(() => {
    throw new Error('The onRequest hook did not handle a request')
  })
}
