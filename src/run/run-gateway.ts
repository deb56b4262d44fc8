import type { Config } from '../config/schema.ts'
import { systemClock } from '../domain/clock.ts'
import { createGateway } from '../gateway/create-gateway.ts'
import type { ChangeEar } from '../keystore/changes.ts'
import { createKeyStore } from '../keystore/create-key-store.ts'
import { createRateLimits } from '../limits/create-rate-limits.ts'
import { createTracing } from '../observability/tracing.ts'
import type { Host } from './host.ts'
import { createFrame, type Frame, type PlaneRun, runUntilSignal } from './run-until-signal.ts'

/** `postern gateway`: the data plane alone. */
export async function runGateway(host: Host, version: string, config: Config): Promise<void> {
  const frame = createFrame(host, version, config, ['gateway'])
  await runUntilSignal(frame, async () => [await startGateway(frame)])
}

export interface GatewayRun extends PlaneRun {
  /** Takes a message as it would come over the channel, where there is no Redis to bring it. */
  readonly ear: ChangeEar
}

/** The data plane: built and hearing changes, not yet listening. */
export async function startGateway({ config, logger, metrics, drain, version }: Frame): Promise<GatewayRun> {
  const tracing = await createTracing(config.tracing, version)
  const store = createKeyStore({ config, metrics, logger, clock: systemClock })
  const rateLimits = await createRateLimits({ config, metrics, logger, clock: systemClock })
  const app = await createGateway({
    config,
    metrics,
    logger,
    clock: systemClock,
    keys: store.keyStore,
    limits: rateLimits.limits,
    used: store.used,
    tracing,
    drainPhase: () => drain.phase,
  })
  store.start()
  return {
    name: 'gateway',
    app,
    ear: store.changes,
    health: async () => ({ ...store.health(), limits: rateLimits.health() }),
    stop: async () => {
      rateLimits.stop()
      await store.stop()
      await tracing?.stop()
    },
  }
}
