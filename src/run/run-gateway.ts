import type { Config } from '../config/schema.ts'
import { systemClock } from '../domain/clock.ts'
import { createGateway } from '../gateway/create-gateway.ts'
import { parentTrustOf } from '../gateway/parent-trust.ts'
import { createKeyStore } from '../keys/create-key-store.ts'
import type { InvalidationReceiver } from '../keys/invalidation/invalidation-listener.ts'
import { createRateLimits } from '../limits/create-rate-limits.ts'
import { AccessLog } from '../observability/access-log.ts'
import { createTracing } from '../observability/tracing.ts'
import { readHeapLimit } from './heap-limit.ts'
import type { Host } from './host.ts'
import { connectionsThatFit, readOpenFilesLimit } from './open-files.ts'
import type { RunSettings } from './run-settings.ts'
import { createFrame, type Frame, type PlaneRun, runUntilSignal } from './run-until-signal.ts'

/** `postern gateway`: the data plane alone. */
export async function runGateway(host: Host, version: string, settings: RunSettings): Promise<void> {
  const frame = createFrame(host, version, settings, ['gateway'])
  await runUntilSignal(frame, async () => [await startGateway(frame)])
}

export interface GatewayRun extends PlaneRun {
  /** Takes a message as it would come over the channel, where there is no Redis to bring it. */
  readonly invalidations: InvalidationReceiver
  /** Settled once the console knows that this gateway is connected. */
  readonly introduced: Promise<void> | null
}

/** The data plane, with connections to Redis and key service, but not yet listening. */
export async function startGateway(frame: Frame): Promise<GatewayRun> {
  const { logger, metrics, drain, version } = frame
  const config = withinOpenFiles(frame)
  const { onReload } = frame.reloader
  const tracing = await createTracing(config.tracing, version, parentTrustOf(config))
  const store = createKeyStore({ config, metrics, logger, clock: systemClock, onReload })
  const rateLimits = await createRateLimits({ config, metrics, logger, clock: systemClock, onReload })
  const app = await createGateway({
    config,
    metrics,
    logger,
    accessLog: new AccessLog(logger, frame.log),
    clock: systemClock,
    keys: store.keyStore,
    limits: rateLimits.limits,
    used: store.used,
    tracing,
    drainPhase: () => drain.phase,
    heapLimitBytes: readHeapLimit(frame.host.environment),
    onReload,
  })
  store.start()
  return {
    name: 'gateway',
    app,
    invalidations: store.invalidations,
    introduced: store.introduced,
    health: async () => ({ ...store.health(), limits: rateLimits.health() }),
    stop: async () => {
      rateLimits.stop()
      await store.stop()
      await tracing?.stop()
    },
  }
}

function withinOpenFiles({ config, logger }: Frame): Config {
  const { maxConnections } = config.gateway
  const openFiles = readOpenFilesLimit()
  const fitting = connectionsThatFit(openFiles, maxConnections, config.upstream.connections)
  if (fitting < maxConnections) {
    const message =
      'fewer client connections than gateway.maxConnections: more files may not be open (ulimit -n)'
    logger.warn({ openFiles, maxConnections: fitting }, message)
  }
  return { ...config, gateway: { ...config.gateway, maxConnections: fitting } }
}
