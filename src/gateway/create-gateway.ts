import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { type OnReload, onReloadOf } from '../config/reloadable.ts'
import type { Config } from '../config/schema.ts'
import type { Clock } from '../domain/clock.ts'
import { denialRow } from '../domain/denial.ts'
import { compileRoutes } from '../domain/route.ts'
import { compileProxies } from '../http/trusted-proxies.ts'
import type { KeyStore } from '../keys/key-store.ts'
import type { RateLimits } from '../limits/rate-limiter.ts'
import type { AccessLog } from '../observability/access-log.ts'
import type { Metrics } from '../observability/metrics.ts'
import { RequestObserver } from '../observability/request-observer.ts'
import type { Tracing } from '../observability/tracing.ts'
import { TroubleLog } from '../observability/trouble-log.ts'
import { workspaceCountsOf } from '../observability/workspace-counts.ts'
import { registerForwarding } from '../upstream/forward.ts'
import { forwardedOf } from '../upstream/forwarded.ts'
import type { UpstreamSettings } from '../upstream/pool/connection.ts'
import { Admission, watchLoad } from './admission.ts'
import { type Answer, createRefuse, describeKey } from './answer.ts'
import { createKeyCheck } from './key-check.ts'
import { limitConnections } from './limit-connections.ts'
import { createServer, serveRequests } from './server.ts'

export interface GatewayDeps {
  readonly config: Config
  readonly metrics: Metrics
  readonly logger: Logger
  readonly accessLog: AccessLog
  readonly clock: Clock
  readonly keys: KeyStore
  /** Null where nothing is limited. */
  readonly limits: RateLimits | null
  /** Told of each request that was permitted. */
  readonly used: (keyId: string) => void
  readonly tracing: Tracing | null
  readonly drainPhase: () => 'serving' | 'leaving' | 'closing'
  /** Bytes of what lives long at which the process would end. */
  readonly heapLimitBytes: number
  /** How settings are heard of that change while it runs. */
  readonly onReload: OnReload<Config>
}

/** The data plane, built apart from listening. */
export async function createGateway(deps: GatewayDeps): Promise<FastifyInstance> {
  const { config, metrics, logger } = deps
  const workspaces = workspaceCountsOf(metrics, config.metrics.workspaces, deps.clock)
  const { tracing, accessLog } = deps
  const observer = new RequestObserver({ metrics, accessLog, tracing, routes: config.routes, workspaces })
  const app = createServer(config.gateway, observer)
  limitConnections(
    app.server,
    config.gateway.maxConnections,
    new TroubleLog('accepting connections', logger, deps.clock),
  )
  const admission = admissionOf(app, deps, observer)
  const gateway = {
    routes: compileRoutes(config.routes),
    keyCheck: createKeyCheck(config, deps.onReload),
    keys: deps.keys,
    limits: deps.limits,
    used: deps.used,
    clock: deps.clock,
    observer,
    answer: createAnswer(app, deps, refusing(admission, observer, createRefuse())),
    admission,
    stopping: () => deps.drainPhase() === 'closing',
  }
  serveRequests(app, gateway, { logger, draining: () => deps.drainPhase() !== 'serving' })
  await app.ready()
  return app
}

function admissionOf(
  app: FastifyInstance,
  { config, metrics, heapLimitBytes }: GatewayDeps,
  observer: RequestObserver,
): Admission {
  const { gateway, upstream } = config
  // What the connections to the upstream can carry is not too much, nor for one workspace, which gets three quarters.
  const minInFlight = Math.min(Math.ceil((upstream.connections * 4) / 3), gateway.maxInFlight)
  const settings = { ...gateway, minInFlight }
  const admission = new Admission(settings, () => observer.inFlight)
  const stop = watchLoad(heapLimitBytes, load => admission.note(load))
  app.addHook('preClose', async () => {
    stop()
    admission.stop()
  })
  metrics.inFlightLimit.onCollect(gauge => gauge.set(admission.limit))
  return admission
}

/** Whoever is too much hears so when the process has time for it, and takes no place meanwhile. */
function refusing(
  admission: Admission,
  observer: RequestObserver,
  refuse: Answer['refuse'],
): Answer['refuse'] {
  return (reply, seen, denial, close) => {
    if (denialRow(denial.reason).delayedUnderOverload !== true) {
      refuse(reply, seen, denial, close)
      return
    }
    observer.handedOver(seen)
    const refused = admission.holdBack().then(() => refuse(reply, seen, denial, close))
    refused.catch((error: unknown) => {
      seen.fault = `A refusal could not be answered: ${String(error)}`
      reply.raw.destroy()
    })
  }
}

function createAnswer(app: FastifyInstance, deps: GatewayDeps, refuse: Answer['refuse']): Answer {
  const { config, metrics, clock, logger } = deps
  const trusted = compileProxies(config.gateway.trustedProxies)
  const forward = registerForwarding(app, {
    settings: upstreamSettingsOf(config),
    onReload: onReloadOf(deps.onReload, upstreamSettingsOf),
    requestHeaders: config.gateway.requestHeaders,
    responseHeaders: config.gateway.responseHeaders,
    metrics,
    clock,
    logger,
    refuse,
  })
  return {
    refuse,
    describeKey,
    forward: (reply, seen, permit) => {
      const { raw } = reply.request
      const forwarded = forwardedOf(raw.socket.remoteAddress ?? '', trusted, raw.headers)
      forward(reply, permit, { seen, requestId: seen.requestId, forwarded })
    },
  }
}

function upstreamSettingsOf({ upstream }: Config): UpstreamSettings {
  const { url } = upstream
  if (url === undefined) throw new Error('upstream.url is required for the gateway')
  return { ...upstream, url }
}
