import { neverReloads, type OnReload, onReloadOf } from '../../../config/reloadable.ts'
import type { Config } from '../../../config/schema/schema.ts'
import { redisTopologyOf } from '../../../domain/redis-topology.ts'
import type { ControlLogger } from '../../../observability/control-logger.ts'
import type { Metrics } from '../../../observability/metrics/metrics.ts'
import { createRedisConnection } from '../../../redis/announcing-connection.ts'
import type { ConsoleSecrets } from '../../console-secrets.ts'
import { type Announcer, createDisabledAnnouncer } from './announcer.ts'
import { createRedisAnnouncer } from './redis-announcer.ts'

interface Parts {
  readonly config: Config
  readonly metrics: Metrics
  readonly logger: ControlLogger
  readonly onReload?: OnReload<Config>
}

/** Announces through the configured Redis; without one, not at all. */
export function createConfiguredAnnouncer(
  { config, metrics, logger, onReload = neverReloads }: Parts,
  secrets: { readonly value: ConsoleSecrets },
): Announcer {
  if (redisTopologyOf(config.redis) === null) return createDisabledAnnouncer()
  const connection = createRedisConnection({
    config: config.redis,
    metrics,
    logger,
    onReload: onReloadOf(onReload, (next: Config) => next.redis),
  })
  const { commandTimeoutMs } = config.redis
  return createRedisAnnouncer({
    connection,
    commandTimeoutMs,
    get recordKeys() {
      return secrets.value.recordKeys
    },
    metrics,
  })
}
