import Fastify, { type FastifyInstance } from 'fastify'
import { neverReloads } from '../../src/config/reloadable.ts'
import { authorize } from '../../src/domain/authorize.ts'
import { systemClock } from '../../src/domain/clock.ts'
import { type DenialReason, denied } from '../../src/domain/denial.ts'
import {
  compileRoutes,
  matchRoute,
  type RouteConfig,
  WORKSPACE_PARAMETER,
} from '../../src/domain/route/route.ts'
import { AccessLog } from '../../src/observability/access-log.ts'
import { createMetrics, type Metrics } from '../../src/observability/metrics/metrics.ts'
import { RequestObserver } from '../../src/observability/request-observer.ts'
import type { ClientRequest, Deny } from '../../src/upstream/client-request.ts'
import { createForward } from '../../src/upstream/forward.ts'
import type { UpstreamSettings } from '../../src/upstream/pool/connection.ts'
import { withResponseCache } from '../../src/upstream/response-cache/with-response-cache.ts'
import { createUpstream, type UpstreamDeps } from '../../src/upstream/upstream.ts'
import { exampleGrant } from '../domain/examples.ts'
import { defaultConfig } from './default-config.ts'
import { portOf } from './port-of.ts'
import { silentLogger } from './silent-logger.ts'

export const WORKSPACE_PATH = '/api/v1/workspaces/ws_1'
export const FILES_PATH = `${WORKSPACE_PATH}/files`

const GRANT = exampleGrant({
  id: 'key_01',
  workspaceId: 'ws_1',
  scopes: ['files:read', 'workspace:read'],
  hint: 'wsk_…abcd',
  expiresAtMs: Number.MAX_SAFE_INTEGER,
})
const ROUTES: readonly RouteConfig[] = [
  { name: 'workspace', path: '/api/v1/workspaces/{workspaceId}', scope: 'workspace:read' },
  {
    name: 'files',
    path: '/api/v1/workspaces/{workspaceId}/files',
    scope: 'files:read',
    query: { limit: { type: 'integer', minimum: 1, maximum: 1000 } },
  },
]
const STATUS: Partial<Record<DenialReason, number>> = {
  upstream_error: 502,
  upstream_timeout: 504,
  upstream_unavailable: 503,
  upstream_queue_full: 503,
  workspace_overloaded: 503,
  upstream_not_found: 404,
  unknown_route: 404,
  other_workspace: 404,
  invalid_query: 400,
}

export const DEFAULT_SETTINGS: Omit<UpstreamSettings, 'url'> = {
  headers: {},
  addresses: [],
  connections: 8,
  queue: { maxRequests: 1000, maxWaitMs: 60_000 },
  // No test ends by these: on a busy machine many requests take long.
  connectTimeoutMs: 30_000,
  headersTimeoutMs: 120_000,
  bodyIdleTimeoutMs: 120_000,
  totalTimeoutMs: 240_000,
  circuit: { failures: 1000, openMs: 500 },
  cache: { maxBytes: 0 },
  tls: {},
}
const { requestHeaders, responseHeaders } = defaultConfig().gateway

export interface ForwardingApp {
  readonly app: FastifyInstance
  readonly port: number
  readonly metrics: Metrics
  readonly requests: ClientRequest[]
  stop(): Promise<void>
}

export interface ForwardingOptions extends Partial<UpstreamDeps> {
  readonly coalesce?: boolean
  /** Permits every workspace. */
  readonly anyWorkspace?: boolean
  readonly deny?: Deny
}

/** The smallest server that forwards: permits come from the real decision, denials are plain JSON. */
export async function startForwardingApp(
  url: string,
  settings: Partial<UpstreamSettings> = {},
  { coalesce = false, anyWorkspace = false, deny = denyPlainly, ...deps }: ForwardingOptions = {},
  prepare: (app: FastifyInstance) => void = () => {},
): Promise<ForwardingApp> {
  const routes = compileRoutes(ROUTES.map(route => ({ ...route, coalesce })))
  const metrics = createMetrics()
  const app = Fastify({ forceCloseConnections: true })
  const accessLog = new AccessLog(silentLogger, { write: () => {} })
  const observer = new RequestObserver({
    metrics,
    accessLog,
    tracing: null,
    routes: [],
    workspaces: null,
    recordUsage: () => {},
  })
  const requests: ClientRequest[] = []
  prepare(app)
  const upstreamDeps: UpstreamDeps = {
    settings: { ...DEFAULT_SETTINGS, url, ...settings },
    requestHeaders,
    responseHeaders,
    trustedProxies: null,
    metrics,
    clock: systemClock,
    logger: silentLogger,
    onReload: neverReloads,
    ...deps,
  }
  const upstream = createUpstream(upstreamDeps)
  app.addHook('onClose', async () => upstream.pool.destroy())
  const forward = withResponseCache(createForward(upstream, deny), {
    ...upstreamDeps,
    upstream,
    deny,
    maxBytes: upstreamDeps.settings.cache.maxBytes,
  })
  app.get('/*', ({ raw: message }, reply) => {
    const { raw: response } = reply.hijack()
    const [path = '', query = ''] = message.url?.split('?') ?? []
    const match = matchRoute(routes, path)
    const observation = observer.begin(message)
    response.on('close', () => observer.end(observation, response))
    observation.requestId = 'req-1'
    const request = { message, response, observation }
    if (match === null) return deny(request, denied('unknown_route'))
    const asked = match.parameters.get(WORKSPACE_PARAMETER) ?? GRANT.workspaceId
    const workspaceId = anyWorkspace ? asked : GRANT.workspaceId
    const verdict = authorize({
      lookup: { kind: 'found', grant: { ...GRANT, workspaceId }, tier: 'memory' },
      match,
      query,
      nowMs: 0,
      clientAddress: '127.0.0.1',
    })
    if (verdict.kind === 'denied') return deny(request, verdict)
    requests.push(request)
    forward(request, verdict.permit)
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const port = portOf(app.server)
  return { app, port, metrics, requests, stop: () => app.close() }
}

const denyPlainly: Deny = ({ response }, { reason, retryAfterSeconds }) => {
  if (retryAfterSeconds !== undefined) response.setHeader('retry-after', String(retryAfterSeconds))
  response.writeHead(STATUS[reason] ?? 500, {
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
  })
  response.end(JSON.stringify({ code: reason, error: 'Refused' }))
}

/** The sum of the series with these labels; 0 if there are none. */
export async function metricSum(
  metrics: Metrics,
  name: string,
  labels: Record<string, string>,
): Promise<number> {
  const found = (await metrics.registry.getMetricsAsJSON()).find(metric => metric.name === name)
  const values = (found?.values ?? []) as { labels: Record<string, string>; value: number }[]
  const matching = values.filter(({ labels: own }) =>
    Object.entries(labels).every(([label, value]) => own[label] === value),
  )
  return matching.reduce((sum, { value }) => sum + value, 0)
}
