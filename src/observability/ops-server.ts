import Fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import { systemClock, withinDeadline } from '../domain/clock.ts'
import { denialRow } from '../domain/denial.ts'
import { rawResponse } from '../http/buffered-response.ts'
import { type ConnectionFault, guardConnections } from '../http/guard-connections.ts'
import { noSchemas, requestTimeouts } from '../http/server-options.ts'
import type { Log } from './failure-log.ts'
import { limitListener } from './limit-listener.ts'
import type { Metrics } from './metrics/metrics.ts'

/** Enough for probes and several Prometheus servers. */
const LIMITS = { maxConnections: 100, maxConnectionsPerAddress: 32 }
/** A connection that transfers no byte for this long is closed, and one whose request takes longer to arrive. */
const STALL_TIMEOUT_MS = 10_000
/** Of the details in `/readyz`: a database that hangs must not fail the probe, for which Kubernetes waits one second. */
const DETAILS_DEADLINE_MS = 500

/** How long a verifier may go without a new key: rotation waits longer before the key signs. */
const PUBLIC_KEYS_MAX_AGE_SECONDS = 300

export interface Health {
  /** Whether the process accepts new requests. A started process stays ready while a dependency is down. */
  state(): 'starting' | 'ready' | 'misconfigured' | 'draining'
  details(): Promise<HealthDetails>
}

/** The state of each dependency in one word, or of each of its regions by name, and a hash of the settings, for operators. */
export type HealthDetails = Readonly<Record<string, string | Readonly<Record<string, string>>>>

/** The server for probes and metrics, on a port of its own in every process. */
export function createOpsServer(deps: {
  readonly metrics: Metrics
  readonly logger: Log
  readonly health: Health
  /** The JWK set of the keys that sign assertions; null if none do. */
  readonly publicKeys: () => object | null
}): FastifyInstance {
  const app = Fastify({
    logger: false,
    schemaController: noSchemas,
    return503OnClosing: false,
    forceCloseConnections: true,
    requestTimeout: STALL_TIMEOUT_MS,
    http: { ...requestTimeouts(STALL_TIMEOUT_MS), requireHostHeader: false },
    frameworkErrors: explainError,
  })
  guardConnections(app.server, {
    stallTimeoutMs: STALL_TIMEOUT_MS,
    rejectTwoHosts: true,
    responseTo: respondToFault,
  })
  limitListener(app.server, 'ops', LIMITS, { ...deps, clock: systemClock })
  app.addHook('onRequest', async (_request, reply) => {
    reply.header('cache-control', 'no-store')
  })
  app.get('/livez', () => ({ status: 'ok' }))
  app.get('/readyz', async (_request, reply) => {
    const status = deps.health.state()
    const known = deps.health.details().catch(() => ({ details: 'failed' }))
    const details = await withinDeadline<HealthDetails>(known, DETAILS_DEADLINE_MS, () => ({
      details: 'late',
    }))
    return reply.code(status === 'ready' ? 200 : 503).send({ status, ...details })
  })
  app.get('/metrics', async (_request, reply) => {
    reply.header('content-type', deps.metrics.registry.contentType)
    return deps.metrics.registry.metrics()
  })
  app.get('/.well-known/jwks.json', (_request, reply) => {
    const keys = deps.publicKeys()
    if (keys === null) return reply.callNotFound()
    return reply.header('cache-control', `public, max-age=${PUBLIC_KEYS_MAX_AGE_SECONDS}`).send(keys)
  })
  app.setErrorHandler(explainError)
  // Not `not_found`: a gateway that takes this port for its key service would reject every key as one that does not exist.
  app.setNotFoundHandler((_request, reply) =>
    reply.code(404).send({ code: 'unknown_path', error: 'This port serves /livez, /readyz and /metrics' }),
  )
  return app
}

function respondToFault(fault: ConnectionFault, cause?: string): string {
  const { status, code, text } = denialRow(fault)
  const body = JSON.stringify({ code, error: cause ?? text })
  return rawResponse(status, { 'content-type': 'application/json; charset=utf-8' }, body)
}

/** Fastify's own texts repeat what the client sent. */
function explainError(error: FastifyError, _request: FastifyRequest, reply: FastifyReply): void {
  const { statusCode = 500, code } = error
  const ofClient = {
    code: 'invalid_request',
    error: OF_CLIENT[code] ?? 'The request is not one that this port answers',
  }
  void reply
    .code(statusCode)
    .send(statusCode < 500 ? ofClient : { code: 'internal_error', error: 'Internal error' })
}

const OF_CLIENT: Readonly<Record<string, string>> = {
  FST_ERR_BAD_URL: 'The path has a percent sign that begins no encoded character',
}
