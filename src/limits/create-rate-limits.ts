import { neverReloads, type OnReload, onReloadOf } from '../config/reloadable.ts'
import type { Config } from '../config/schema/schema.ts'
import { Circuit } from '../domain/circuit.ts'
import type { Clock } from '../domain/clock.ts'
import { redisTopologyOf } from '../domain/redis-topology.ts'
import { FailureLog, type Log } from '../observability/failure-log.ts'
import type { Metrics } from '../observability/metrics/metrics.ts'
import { createCommandClient, type RedisClient } from '../redis/clients.ts'
import { RedisConnection } from '../redis/redis-connection.ts'
import type { GatewayCount } from './gateway-count.ts'
import { LocalCounters } from './local-counters.ts'
import { RateLimiter, type RateLimits } from './rate-limiter.ts'
import { RedisCounters } from './redis-counters.ts'

/** Failures within this time count as one: when this process stalls, many commands time out together. */
const MERGE_FAILURES_MS = 20

export interface RateLimitSettings {
  readonly config: Pick<Config, 'limits' | 'redis'>
  readonly gateways: GatewayCount
  readonly metrics: Metrics
  readonly logger: Log
  readonly clock: Clock
  /** Calls back when the credentials for Redis change. */
  readonly onReload?: OnReload<Pick<Config, 'redis'>>
}

export interface RunningRateLimits {
  /** Null if no policy is configured. */
  readonly limits: RateLimits | null
  /** `shared`: counted in Redis; `local`: counted by each gateway alone; `off`: no policy is configured. */
  health(): 'shared' | 'local' | 'off'
  stop(): void
}

const OFF: RunningRateLimits = { limits: null, health: () => 'off', stop: () => {} }

/** Starts to connect to Redis if one is configured, and does not wait for the connection. */
export async function createRateLimits(settings: RateLimitSettings): Promise<RunningRateLimits> {
  const { config, clock, metrics, gateways } = settings
  const { policies } = config.limits
  if (policies.length === 0) return OFF
  const redis = redisTopologyOf(config.redis) === null ? null : await connect(settings)
  const shared = redis?.counters ?? null
  return {
    limits: new RateLimiter({ policies, gateways, shared, local: new LocalCounters(), clock, metrics }),
    health: () => (redis?.isShared() === true ? 'shared' : 'local'),
    stop: () => redis?.connection.stop(),
  }
}

interface RedisLimits {
  readonly connection: RedisConnection<RedisClient>
  readonly counters: RedisCounters
  readonly isShared: () => boolean
}

/** A separate connection, so that counting and lookups do not wait for each other. */
async function connect(settings: RateLimitSettings): Promise<RedisLimits> {
  const { config, metrics, logger, clock, onReload = neverReloads } = settings
  const failures = new FailureLog('redis rate limits', logger, clock)
  const client = createCommandClient(
    config.redis,
    onReloadOf(onReload, next => next.redis),
  )
  const connection = new RedisConnection(
    client,
    {
      onTrouble: (error, failure) => failures.failed(error, failure),
      onReconnecting: () => metrics.redisReconnects.inc(),
    },
    metrics.redisFailing,
  ).reconnectOnRefusal()
  const circuit = new Circuit({ ...config.redis.circuit, mergeFailuresMs: MERGE_FAILURES_MS })
  const limiters = await limitersOver(connection.client, config.limits.policies)
  connection.start()
  return {
    connection,
    counters: new RedisCounters({ connection, limiters, circuit, clock, failures }),
    isShared: () =>
      connection.isReady &&
      connection.failure?.isAnswer !== true &&
      circuit.state(clock.monotonicMs()) === 'closed',
  }
}

/** Loads the library only if there is a policy to count for. */
async function limitersOver(storeClient: RedisClient, policies: Config['limits']['policies']) {
  const { RateLimiterRedis } = await import('rate-limiter-flexible')
  return new Map(
    policies.map(policy => {
      const { requests: points, windowSeconds: duration } = policy
      return [policy, new RateLimiterRedis({ storeClient, points, duration, keyPrefix: '' })] as const
    }),
  )
}
