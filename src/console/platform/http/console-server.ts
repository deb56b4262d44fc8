import type { IncomingHttpHeaders } from 'node:http'
import type { ServerOptions } from 'node:https'
import { isIP } from 'node:net'
import { finished, Readable } from 'node:stream'
import {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  fastify,
} from 'fastify'
import type { Clock } from '../../../domain/clock.ts'
import { plainAddress } from '../../../domain/form/address.ts'
import { findStrayKeys, holdsKeyForm, holdsStrayKey, TOKEN_PREFIX } from '../../../domain/key/secret.ts'
import { compileProxies, findClientAddress } from '../../../http/client-address.ts'
import { guardConnections } from '../../../http/guard-connections.ts'
import { noSchemas, requestTimeouts } from '../../../http/server-options.ts'
import type { ControlLogger } from '../../../observability/control-logger.ts'
import { type ListenerLimits, limitListener } from '../../../observability/limit-listener.ts'
import type { Metrics } from '../../../observability/metrics/metrics.ts'
import type { RandomBytes } from '../database/ids.ts'
import { ApiError } from './api-error.ts'
import { rejectUnknownPaths } from './calls.ts'
import { describeFailure, explainError, explainFault } from './explain-error.ts'
import { admitBeforeBody, readJsonOnly, requireStorableTarget } from './read-bodies.ts'
import { requestValidator } from './validator.ts'

const BODY_LIMIT_BYTES = 64 * 1024
const MAX_PARAMETER_LENGTH = 512
const MAX_HEADERS = 100
const REQUEST_TIMEOUT_MS = 10_000
const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

const HTTP_OPTIONS = {
  ...requestTimeouts(REQUEST_TIMEOUT_MS),
  // Node would answer a missing Host with an empty 400, past the guard.
  requireHostHeader: false,
}

type RawRequest = { readonly headers: IncomingHttpHeaders; readonly rawHeaders: readonly string[] }
/** `console`: for people and programs; `internal`: for gateways. */
type ListenerName = 'console' | 'internal'

interface ServerParts {
  readonly listener: ListenerName
  readonly logger: ControlLogger
  readonly metrics: Metrics
  readonly randomBytes: RandomBytes
  readonly clock: Clock
  readonly limits: ListenerLimits
  /** The prefix of keys: no log line or audit entry may hold a key. */
  readonly keyPrefix: string
  /** Addresses and CIDRs whose `X-Forwarded-For` is believed. */
  readonly trustedProxies: readonly string[]
  /** Null: plain HTTP. */
  readonly tls: ServerOptions | null
}

/** A server without routes, not listening. Every response has our form, also the framework's own. */
export function createConsoleServer(parts: ServerParts): FastifyInstance {
  const handleError = createErrorHandler(parts)
  // Typed without TLS: the part that both kinds of server share.
  const app: FastifyInstance = fastify({
    ...{ http: HTTP_OPTIONS },
    https: parts.tls === null ? null : { ...HTTP_OPTIONS, ...parts.tls },
    bodyLimit: BODY_LIMIT_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    return503OnClosing: false,
    routerOptions: { maxParamLength: MAX_PARAMETER_LENGTH },
    schemaController: noSchemas,
    requestIdHeader: false,
    genReqId: request => chooseRequestId(request, parts),
    frameworkErrors: handleError,
  })
  app.server.maxHeadersCount = MAX_HEADERS
  guardConnections(app.server, {
    stallTimeoutMs: REQUEST_TIMEOUT_MS,
    rejectTwoHosts: true,
    responseTo: (fault, cause) => explainFault(fault, randomId(parts.randomBytes), cause),
  })
  limitListener(app.server, parts.listener, parts.limits, parts)
  app.setValidatorCompiler(requestValidator)
  app.decorateRequest('isStillAdmitted', null)
  app.decorateRequest('keyId', null)
  app.decorateRequest('person', null)
  app.decorateRequest('principal', null)
  app.decorateRequest('refusedWorkspace', null)
  app.decorateRequest('session', null)
  readJsonOnly(app)
  admitBeforeBody(app)
  noteCallerAddress(app, parts.trustedProxies)
  app.addHook('onRequest', async (request, reply) => {
    setCommonHeaders(request, reply)
    const startedAtMs = performance.now()
    finished(reply.raw, () => recordRequest(request, reply, performance.now() - startedAtMs, parts))
    requireStorableTarget(request.raw.url ?? '')
  })
  app.addHook('onSend', async (request, reply, payload) => {
    if (payload instanceof Readable) payload.once('error', error => logCutOff(error, request, reply, parts))
  })
  app.setErrorHandler(handleError)
  // The console's is set with its pages: Fastify takes one for each prefix.
  if (parts.listener === 'internal') rejectUnknownPaths(app, 'unknown_path')
  return app
}

/** Sets the address of each request. Fastify's own `trustProxy` reads no address with a port. */
function noteCallerAddress(app: FastifyInstance, trustedProxies: readonly string[]): void {
  const trusted = compileProxies(trustedProxies)
  app.decorateRequest('callerAddress', 'unknown')
  app.addHook('onRequest', async request => {
    const { socket, headers } = request.raw
    const peer = plainAddress(socket.remoteAddress ?? '')
    const said = [headers['x-forwarded-for'] ?? []].flat()
    const forwardedFor = said.length === 0 ? undefined : said.join(',')
    const address = findClientAddress(peer, trusted, forwardedFor)
    request.callerAddress = [address, peer].find(text => isIP(text) !== 0) ?? 'unknown'
  })
}

function createErrorHandler({ logger }: ServerParts) {
  return (error: FastifyError | ApiError, request: FastifyRequest, reply: FastifyReply): void => {
    const apiError = explainError(error, request.routeOptions.schema)
    if (apiError.status >= 500)
      logger.error({ ...describeFailure(error), requestId: request.id }, 'request failed')
    setCommonHeaders(request, reply)
    void reply.code(apiError.status).headers(apiError.headers).send(apiError.body)
  }
}

/** A stream that fails after the head can only end the connection. Before, the error handler answers. */
function logCutOff(
  error: Error,
  request: FastifyRequest,
  reply: FastifyReply,
  { logger }: ServerParts,
): void {
  if (!reply.raw.headersSent) return
  const line = { err: error, requestId: request.id }
  if (error instanceof ApiError) logger.warn(line, 'response cut off')
  else logger.error(line, 'response cut off')
}

function setCommonHeaders(request: FastifyRequest, reply: FastifyReply): void {
  void reply.headers({
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'x-request-id': request.id,
  })
}

/** The client's own id, unless it holds a key or this request's token: it goes to logs and the audit log. */
function chooseRequestId(request: RawRequest, { keyPrefix, randomBytes }: ServerParts): string {
  const sent = request.headers['x-request-id']
  const keys = findStrayKeys(request.rawHeaders, keyPrefix)
  const isPlain = typeof sent === 'string' && REQUEST_ID.test(sent)
  return isPlain && !holdsStrayKey(sent, keys) && !holdsKeyForm(sent, TOKEN_PREFIX)
    ? sent
    : randomId(randomBytes)
}

function randomId(randomBytes: RandomBytes): string {
  return Buffer.from(randomBytes(16)).toString('hex')
}

/** Called for aborted requests too. */
function recordRequest(
  request: FastifyRequest,
  reply: FastifyReply,
  elapsedMs: number,
  { listener, logger, metrics }: ServerParts,
): void {
  const operation = request.routeOptions.config.operation ?? 'other'
  const status = reply.raw.statusCode
  const durationMs = Math.round(elapsedMs * 100) / 100
  const line = { requestId: request.id, operation, status, keyId: request.keyId, durationMs }
  const labels = { operation, code: String(status) }
  if (listener === 'internal') {
    metrics.internalRequests.inc(labels)
    logger.debug(line, 'internal request')
    return
  }
  metrics.adminRequests.inc(labels)
  logger.info(line, 'admin request')
}
