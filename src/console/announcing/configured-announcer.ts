import { type OnReload, onReloadOf } from '../../config/reloadable.ts'
import type { Config, RegionSettings } from '../../config/schema/schema.ts'
import type { Clock } from '../../domain/clock.ts'
import { redisTopologyOf } from '../../domain/redis-topology.ts'
import { DEFAULT_REGION } from '../../domain/region.ts'
import type { ControlLogger } from '../../observability/control-logger.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import { createRedisConnection } from '../../redis/announcing-connection.ts'
import type { RedisNetwork } from '../../redis/clients.ts'
import type { ConsoleSecrets } from '../platform/console-secrets.ts'
import type { Timers } from '../platform/jobs/timers.ts'
import { type Announcer, createDisabledAnnouncer } from './announcer.ts'
import { createRedisAnnouncer } from './redis-announcer.ts'
import type { RoundTrip } from './round-trip.ts'

interface Parts<Settings> {
  readonly metrics: Metrics
  readonly logger: ControlLogger
  readonly onReload: OnReload<Settings>
  /** Regions whose Redis is connected. */
  readonly up: Set<string>
  readonly roundTrip?: RoundTrip
  readonly timers?: Timers
  readonly clock?: Clock
  readonly redisNetwork?: RedisNetwork
}

interface CurrentSecrets {
  readonly value: ConsoleSecrets
}

/** Announces through the configured Redis; without one, not at all. */
export function createConfiguredAnnouncer(
  { config, onReload, ...parts }: Omit<Parts<Config>, 'up'> & { readonly config: Config },
  secrets: CurrentSecrets,
): Announcer {
  if (redisTopologyOf(config.redis) === null) return createDisabledAnnouncer()
  const redis = { ...parts, up: new Set<string>(), onReload: onReloadOf(onReload, next => next.redis) }
  return createRegionAnnouncer({ name: DEFAULT_REGION, redis: config.redis }, redis, secrets)
}

export function createRegionAnnouncer(
  { name: region, redis }: RegionSettings,
  { metrics, logger, onReload, up, roundTrip, timers, clock, redisNetwork }: Parts<RegionSettings['redis']>,
  secrets: CurrentSecrets,
): Announcer {
  metrics.regionUp.set({ region }, 0)
  const connection = createRedisConnection({
    config: redis,
    metrics,
    logger,
    onReload,
    onRoundTrip: ms => roundTrip?.observe(ms),
    ...(timers === undefined ? {} : { timers }),
    ...(clock === undefined ? {} : { clock }),
    ...(redisNetwork === undefined ? {} : { network: redisNetwork }),
    onUp(isUp) {
      if (isUp) up.add(region)
      else up.delete(region)
      metrics.regionUp.set({ region }, isUp ? 1 : 0)
      metrics.redisUp.set(up.size > 0 ? 1 : 0)
    },
  })
  const { commandTimeoutMs } = redis
  return createRedisAnnouncer({
    connection,
    commandTimeoutMs,
    get recordKeys() {
      return secrets.value.recordKeys
    },
    metrics,
  })
}
