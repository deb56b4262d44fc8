import type { BlockList } from 'node:net'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { narrowReload, type OnReload } from '../config/reloadable.ts'
import type { Config } from '../config/schema/schema.ts'
import type { Clock } from '../domain/clock.ts'
import { compileRoutes } from '../domain/route/route.ts'
import { compileProxies } from '../http/client-address.ts'
import type { KeyStore } from '../keys/tiers/key-store.ts'
import type { RateLimiter } from '../limits/rate-limiter.ts'
import type { AccessLog } from '../observability/access-log.ts'
import { limitListener } from '../observability/limit-listener.ts'
import type { Metrics } from '../observability/metrics/metrics.ts'
import type { Tracing } from '../observability/request-observation.ts'
import {
  createWorkspaceRequestCounts,
  type RecordUsage,
  RequestObserver,
} from '../observability/request-observer.ts'
import type { Assertions } from '../upstream/assertion/assertions.ts'
import type { Deny } from '../upstream/client-request.ts'
import { createForward, type Forward } from '../upstream/forward.ts'
import type { UpstreamSettings } from '../upstream/pool/connection.ts'
import { withResponseCache } from '../upstream/response-cache/with-response-cache.ts'
import { createUpstream } from '../upstream/upstream.ts'
import { Admission, watchLoad } from './admission.ts'
import { createCheckListener } from './check-mode.ts'
import { createBearerKeyScheme, denyKeyInTarget } from './credentials.ts'
import type { Gateway } from './handle-request.ts'
import { createDeny, createPermittedHandler } from './responses.ts'
import { createServer, serveRequests } from './server.ts'

export interface GatewayDeps {
  readonly config: Config
  readonly metrics: Metrics
  readonly logger: Logger
  readonly accessLog: AccessLog
  readonly clock: Clock
  readonly keys: KeyStore
  readonly limits: Pick<RateLimiter, 'count'>
  /** Null if the upstream gets none. */
  readonly assertions: Assertions | null
  readonly recordUsage: RecordUsage
  readonly tracing: Tracing | null
  readonly drainPhase: () => 'serving' | 'leaving' | 'closing'
  /** Limit of long-lived objects in bytes, above which V8 ends the process. */
  readonly heapLimitBytes: number
  /** Registers a callback for settings that change at run time. */
  readonly onReload: OnReload<Config>
}

export interface GatewayListeners {
  readonly app: FastifyInstance
  /** Null unless `gateway.check.port` is set. */
  readonly check: FastifyInstance | null
  readonly upstreamHealth: () => Promise<'ok' | 'down' | 'unknown'>
}

/** Builds the gateway. The caller makes it listen. */
export async function createGateway(deps: GatewayDeps): Promise<GatewayListeners> {
  const { config, metrics, logger } = deps
  const workspaces = createWorkspaceRequestCounts(metrics, config.metrics.workspaces, deps.clock)
  const { tracing, accessLog, recordUsage } = deps
  const { routes } = config
  const observer = new RequestObserver({ metrics, accessLog, tracing, routes, workspaces, recordUsage })
  const app = createServer(config.gateway, observer)
  limitListener(app.server, 'gateway', config.gateway, deps)
  const admission = openAdmission(app, deps, observer)
  const deny = createDeny(admission, observer)
  const trustedProxies = compileProxies(config.gateway.trustedProxies)
  const credentials = createBearerKeyScheme(config, deps.onReload, digest => deps.keys.holds(digest))
  const { forward, upstreamHealth } = openForward(app, deps, { deny, trustedProxies })
  const gateway: Gateway = {
    reader: { original: ({ method = '' }, target) => ({ method, target }), credentials, trustedProxies },
    rules: {
      routes: compileRoutes(routes),
      keys: deps.keys,
      limits: deps.limits,
      admission,
      denyPermitted: (request, permit) => denyKeyInTarget(credentials, request, permit),
      clock: deps.clock,
      isStopping: () => deps.drainPhase() === 'closing',
    },
    responder: {
      handlePermitted: createPermittedHandler(forward),
      deny,
      observer,
    },
  }
  const serveDeps = { logger, isDraining: () => deps.drainPhase() !== 'serving' }
  serveRequests(app, gateway, serveDeps)
  await app.ready()
  const { proxy, port } = config.gateway.check
  if (proxy === undefined || port === undefined) return { app, check: null, upstreamHealth }
  const checkDeps = { ...serveDeps, admission, assertions: deps.assertions }
  const check = createCheckListener(config.gateway, proxy, gateway, checkDeps)
  limitListener(check.server, 'check', { maxConnections: config.gateway.maxConnections }, deps)
  await check.ready()
  return { app, check, upstreamHealth }
}

function openAdmission(
  app: FastifyInstance,
  { config, metrics, heapLimitBytes }: GatewayDeps,
  observer: RequestObserver,
): Admission {
  const { gateway, upstream } = config
  // As many requests as there are upstream connections are always admitted.
  const minInFlight = Math.min(upstream.connections, gateway.maxInFlight)
  const settings = { ...gateway, minInFlight }
  const admission = new Admission(settings, () => observer.inFlight)
  const stop = watchLoad(heapLimitBytes, load => admission.recordLoad(load))
  app.addHook('preClose', async () => {
    stop()
    admission.stop()
  })
  metrics.inFlightLimit.onCollect(gauge => gauge.set(admission.limit))
  return admission
}

/** Opens the connections to the upstream, which close with the listener. */
function openForward(
  app: FastifyInstance,
  deps: GatewayDeps,
  { deny, trustedProxies }: { readonly deny: Deny; readonly trustedProxies: BlockList | null },
): { readonly forward: Forward } & Pick<GatewayListeners, 'upstreamHealth'> {
  const { config, metrics, clock, logger } = deps
  const settings = requireUpstream(config)
  const onReload = narrowReload(deps.onReload, requireUpstream)
  const { requestHeaders, responseHeaders } = config.gateway
  const upstream = createUpstream({
    settings,
    onReload,
    requestHeaders,
    responseHeaders,
    trustedProxies,
    assertions: deps.assertions,
    metrics,
    clock,
    logger,
  })
  app.addHook('onClose', async () => upstream.pool.destroy())
  const { maxBytes } = settings.cache
  const forward = withResponseCache(createForward(upstream, deny), {
    upstream,
    deny,
    maxBytes,
    onReload,
    requestHeaders,
    metrics,
    clock,
  })
  return { forward, upstreamHealth: () => upstream.pool.health() }
}

function requireUpstream({ upstream }: Config): UpstreamSettings {
  const { url } = upstream
  if (url === undefined) throw new Error('upstream.url is required for the gateway')
  return { ...upstream, url }
}
