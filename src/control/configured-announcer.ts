import type { Config } from '../config/schema.ts'
import { type Follow, followingPart, unchanging } from '../domain/follow.ts'
import { redisTopologyOf } from '../domain/redis-topology.ts'
import type { Metrics } from '../observability/metrics.ts'
import type { ConsoleSecrets } from './console-secrets.ts'
import type { ControlLogger } from './control-logger.ts'
import { type Announcer, createSilentAnnouncer } from './registry/announcer.ts'
import { createRedisAnnouncer } from './registry/redis-announcer.ts'
import { createRedisConnection } from './registry/redis-connection.ts'

interface Parts {
  readonly config: Config
  readonly metrics: Metrics
  readonly logger: ControlLogger
  readonly follow?: Follow<Config>
}

/** Tells gateways through the Redis that is configured, or nobody where none is. */
export function createConfiguredAnnouncer(
  { config, metrics, logger, follow = unchanging }: Parts,
  secrets: { readonly value: ConsoleSecrets },
): Announcer {
  if (redisTopologyOf(config.redis) === null) return createSilentAnnouncer()
  const connection = createRedisConnection({
    config: config.redis,
    metrics,
    logger,
    follow: followingPart(follow, (next: Config) => next.redis),
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
