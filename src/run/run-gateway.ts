import type { Config } from '../config/schema/schema.ts'
import { systemClock } from '../domain/clock.ts'
import { DEFAULT_REGION } from '../domain/region.ts'
import { createGateway } from '../gateway/create-gateway.ts'
import { compileProxies, isTrustedProxy } from '../http/client-address.ts'
import { createKeyStore } from '../keys/create-key-store.ts'
import type { InvalidationListener } from '../keys/invalidation/invalidation-listener.ts'
import { createRateLimits } from '../limits/create-rate-limits.ts'
import { NearLimits } from '../limits/near-limits.ts'
import { GatewayCount } from '../limits/rate-limiter.ts'
import { AccessLog } from '../observability/access-log.ts'
import { FailureLog } from '../observability/failure-log.ts'
import type { Tracing, TrustsParent } from '../observability/request-observation.ts'
import { openAssertions } from '../upstream/assertion/open-assertions.ts'
import type { Host } from './host.ts'
import { connectionsThatFit, readHeapLimit, readOpenFilesLimit } from './process-limits.ts'
import type { RunSettings } from './reloader.ts'
import { createContext, type PlaneRun, type ProcessContext, runUntilSignal } from './run-until-signal.ts'

/** `postern gateway`: the data plane alone. */
export async function runGateway(host: Host, version: string, settings: RunSettings): Promise<void> {
  const context = createContext(host, version, settings, ['gateway'])
  const start = async () => {
    const gateway = await startGateway(context)
    // The first answer of the key service shows whether the settings agree: until then a rollout must not count on this gateway.
    await gateway.tryKeyService()
    return gateway
  }
  await runUntilSignal(context, [start])
}

export interface GatewayRun extends PlaneRun {
  /** Receives messages of a console in the same process, without Redis. */
  readonly invalidations: Pick<InvalidationListener, 'subscribed' | 'receive'>
  /** Settles once the console knows that this gateway is connected; null if no key service is configured. */
  readonly introduced: Promise<void> | null
  /** Settles once the key service has answered for the first time, or has not in time. */
  tryKeyService(): Promise<void>
}

/** Builds the data plane and starts to connect it to the invalidation channel. The listener is not open yet. */
export async function startGateway(context: ProcessContext): Promise<GatewayRun> {
  const { logger, metrics, drain, version } = context
  const config = limitConnections(context)
  const { onReload } = context.reloader
  const tracing = await createTracing(config, {
    version,
    failures: new FailureLog('trace export', logger, systemClock),
  })
  const parts = { config, metrics, logger, clock: systemClock, onReload }
  const gateways = new GatewayCount(config.limits.replicas, systemClock)
  const nearLimits = new NearLimits()
  const store = createKeyStore({ ...parts, nearLimits, onGatewayCount: count => gateways.report(count) })
  const rateLimits = await createRateLimits({ ...parts, gateways, nearLimits })
  const assertions = await openAssertions({ ...parts, nowMs: () => Date.now() })
  const { app, check, upstreamHealth } = await createGateway({
    config,
    metrics,
    logger,
    accessLog: new AccessLog(logger, context.log),
    clock: systemClock,
    keys: store.keyStore,
    limits: rateLimits.limits,
    assertions,
    recordUsage: store.recordUsage,
    tracing,
    drainPhase: () => drain.phase,
    heapLimitBytes: readHeapLimit(context.host.environment),
    onReload,
  })
  store.start()
  metrics.gatewayRegion.set({ region: config.region ?? DEFAULT_REGION }, 1)
  return {
    name: 'gateway',
    app,
    check,
    invalidations: store.invalidations,
    introduced: store.introduced,
    tryKeyService: () => store.tryKeyService(),
    ...(assertions === null ? {} : { publicKeys: () => assertions.publicKeys() }),
    health: async () => ({
      ...(config.region === undefined ? {} : { region: config.region }),
      ...store.health(),
      upstream: await upstreamHealth(),
      limits: rateLimits.health(),
      signingSecrets: store.secretsMatch(),
    }),
    isMisconfigured: () => store.isMisconfigured(),
    stop: async () => {
      rateLimits.stop()
      await store.stop(drain.hasTimedOut ? 'timed_out' : 'completed')
      await tracing?.stop()
    },
  }
}

/** Lowers `gateway.maxConnections` if the limit of open files requires it. */
function limitConnections({ config, logger }: ProcessContext): Config {
  const { maxConnections } = config.gateway
  const openFiles = readOpenFilesLimit()
  const fitting = connectionsThatFit(openFiles, maxConnections, config.upstream.connections)
  const lowered = { openFiles, maxConnections: fitting }
  if (fitting < maxConnections)
    logger.warn(lowered, 'open file limit (ulimit -n) lowers gateway.maxConnections')
  return { ...config, gateway: { ...config.gateway, maxConnections: fitting } }
}

/** Loads the OpenTelemetry SDK only if `tracing.endpoint` is set. @returns null without an endpoint */
async function createTracing(
  config: Pick<Config, 'gateway' | 'tracing' | 'outgoing'>,
  parts: { readonly version: string; readonly failures: FailureLog },
): Promise<Tracing | null> {
  const { endpoint, sampleRatio } = config.tracing
  if (endpoint === undefined) return null
  const { OpenTelemetryTracing } = await import('../observability/open-telemetry.ts')
  return new OpenTelemetryTracing({
    endpoint,
    sampleRatio,
    proxies: config.outgoing,
    trustsParent: parentTrust(config),
    ...parts,
  })
}

/** @returns a function that tells whether the `traceparent` of a request decides if its trace is recorded */
export function parentTrust({ gateway, tracing }: Pick<Config, 'gateway' | 'tracing'>): TrustsParent {
  if (tracing.trustParent !== 'trusted-proxies') return () => tracing.trustParent === 'always'
  const trusted = compileProxies(gateway.trustedProxies)
  return ({ socket }) => isTrustedProxy(trusted, socket.remoteAddress ?? '')
}
