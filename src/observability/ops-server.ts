import Fastify, { type FastifyInstance } from 'fastify'
import { type ConnectionFault, guardConnections } from '../http/guard-connections.ts'
import { rawResponse } from '../http/raw-response.ts'
import type { Metrics } from './metrics/metrics.ts'
import { noSchemas } from './no-schemas.ts'

/** Probes and a few Prometheuses, each with a connection or two. */
const MAX_CONNECTIONS = 100
/** A connection that transfers no byte for this long closes. */
const SILENCE_MS = 10_000
/** How long what is degraded may take to be found out. */
const DETAILS_MS = 500

export interface Health {
  /** Whether new requests should come here. Nothing behind a process that has started is a reason against it. */
  state(): 'starting' | 'ready' | 'draining'
  /** The state of each dependency in one word, for people. */
  details(): Promise<Readonly<Record<string, string>>>
}

/** A database that hangs must not look like a process that hangs: Kubernetes waits one second for a probe. */
async function inTime(details: Promise<Readonly<Record<string, string>>>): Promise<object> {
  const { promise: late, resolve } = Promise.withResolvers<object>()
  const deadline = setTimeout(() => resolve({ details: 'late' }), DETAILS_MS)
  return Promise.race([details.catch(() => ({ details: 'failed' })), late]).finally(() =>
    clearTimeout(deadline),
  )
}

/** The second port of every process: probes and metrics, and nothing else. Never on the public one. */
export function createOpsServer(deps: { metrics: Metrics; health: Health }): FastifyInstance {
  const app = Fastify({
    logger: false,
    schemaController: noSchemas,
    return503OnClosing: false,
    forceCloseConnections: true,
    requestTimeout: SILENCE_MS,
    http: { requireHostHeader: false },
  })
  app.server.maxConnections = MAX_CONNECTIONS
  guardConnections(app.server, { stallTimeoutMs: SILENCE_MS, responseTo: answerUnreadable })
  app.addHook('onRequest', async (_request, reply) => {
    reply.header('cache-control', 'no-store')
  })
  app.get('/livez', () => ({ status: 'ok' }))
  app.get('/readyz', async (_request, reply) => {
    const status = deps.health.state()
    const details = await inTime(deps.health.details())
    return reply.code(status === 'ready' ? 200 : 503).send({ status, ...details })
  })
  app.get('/metrics', async (_request, reply) => {
    reply.header('content-type', deps.metrics.registry.contentType)
    return deps.metrics.registry.metrics()
  })
  app.setNotFoundHandler((_request, reply) =>
    reply.code(404).send({ code: 'not_found', error: 'Here are /livez, /readyz and /metrics' }),
  )
  return app
}

const STATUS: Readonly<Record<ConnectionFault, number>> = {
  malformed_request: 400,
  unknown_route: 404,
  request_timeout: 408,
  url_too_long: 414,
  headers_too_large: 431,
}

function answerUnreadable(fault: ConnectionFault): string {
  const body = JSON.stringify({ code: 'invalid_request', error: 'This is not a request that can be read' })
  return rawResponse(STATUS[fault], { 'content-type': 'application/json; charset=utf-8' }, body)
}
