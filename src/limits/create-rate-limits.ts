import { LRUCache } from 'lru-cache'
import type { RateLimiterRedis } from 'rate-limiter-flexible'
import { narrowReload, neverReloads, type OnReload } from '../config/reloadable.ts'
import type { Config } from '../config/schema/schema.ts'
import { Circuit } from '../domain/circuit.ts'
import type { Clock } from '../domain/clock.ts'
import type { PolicyCount, RatePolicy } from '../domain/rate-limit.ts'
import { findRedisTopology } from '../domain/redis-address.ts'
import { asError, FailureLog, type Log } from '../observability/failure-log.ts'
import type { Metrics } from '../observability/metrics/metrics.ts'
import { createCommandClient, type RedisClient } from '../redis/clients.ts'
import { RedisConnection } from '../redis/redis-connection.ts'
import {
  type GatewayCount,
  LocalCounters,
  type RateCounter,
  RateLimiter,
  type RateLimits,
  type SharedCounters,
} from './rate-limiter.ts'

/** Failures within this time count as one: when this process stalls, many commands time out together. */
const MERGE_FAILURES_MS = 20

interface RateLimitSettings {
  readonly config: Pick<Config, 'limits' | 'redis'>
  readonly gateways: GatewayCount
  readonly metrics: Metrics
  readonly logger: Log
  readonly clock: Clock
  /** Calls back when the credentials for Redis change. */
  readonly onReload?: OnReload<Pick<Config, 'redis'>>
}

interface RunningRateLimits {
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
  const redis = findRedisTopology(config.redis) === null ? null : await connect(settings)
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
    narrowReload(onReload, next => next.redis),
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

/** Exhausted windows that are remembered; for others, Redis counts each request. */
const MAX_EXHAUSTED = 100_000

interface RedisCountersParts {
  readonly connection: Pick<
    RedisConnection,
    'isReady' | 'reconnect' | 'writeTogether' | 'answered' | 'refused'
  >
  /** By policy. */
  readonly limiters: ReadonlyMap<RatePolicy, Pick<RateLimiterRedis, 'penalty'>>
  readonly circuit: Circuit
  readonly clock: Clock
  readonly failures: FailureLog
}

/**
 * Windows in Redis. All counters of a request are sent together: one round trip, limited by `redis.commandTimeoutMs`.
 */
export class RedisCounters implements SharedCounters {
  readonly #parts: RedisCountersParts
  readonly #exhaustedUntilMs = new LRUCache<string, number>({ max: MAX_EXHAUSTED })

  constructor(parts: RedisCountersParts) {
    this.#parts = parts
  }

  async count(counters: readonly RateCounter[], nowMs: number): Promise<readonly PolicyCount[] | null> {
    const exhausted = this.#findExhausted(counters, nowMs)
    if (exhausted.length > 0) return exhausted
    const { connection, circuit } = this.#parts
    const state = circuit.state(nowMs)
    if (!connection.isReady || !circuit.admits(nowMs)) return null
    const counting = this.#countInRedis(counters)
    // No request waits for the circuit's probe: this process counts the request itself.
    return state === 'closed' ? await counting : null
  }

  /**
   * An exhausted window allows no request until it ends. Rejecting them here saves a command, and a key that exhausted its
   * own limit does not use up the limit of its workspace.
   */
  #findExhausted(counters: readonly RateCounter[], nowMs: number): PolicyCount[] {
    return counters.flatMap(({ policy, name }) => {
      const resetMs = (this.#exhaustedUntilMs.get(name) ?? 0) - nowMs
      return resetMs > 0 ? [{ policy, exceeded: true, remaining: 0, resetMs }] : []
    })
  }

  /** Never rejects. */
  async #countInRedis(counters: readonly RateCounter[]): Promise<readonly PolicyCount[] | null> {
    const { connection, circuit, failures, clock } = this.#parts
    try {
      connection.writeTogether()
      const counts = await Promise.all(counters.map(counter => this.#countAt(counter)))
      circuit.succeeded()
      connection.answered()
      failures.succeeded()
      return counts
    } catch (thrown) {
      const error = asError(thrown)
      // An error reply, such as for a missing permission or full memory, costs no time: no reason to open the circuit.
      if (error.name === 'ReplyError') circuit.succeeded()
      else circuit.failed(clock.monotonicMs())
      // A primary that became a replica may keep its connections open.
      if (error.message.startsWith('READONLY ')) connection.reconnect()
      failures.failed(error, connection.refused(error))
      return null
    }
  }

  /** The library's `consume` also decides; `penalty` only counts. */
  async #countAt({ policy, name }: RateCounter): Promise<PolicyCount> {
    const limiter = this.#parts.limiters.get(policy)
    if (limiter === undefined) throw new Error(`no counter for the rate limit policy ${policy.name}`)
    const { consumedPoints, msBeforeNext } = await limiter.penalty(name)
    const remaining = Math.max(0, policy.requests - consumedPoints)
    const resetMs = Math.max(0, msBeforeNext)
    if (remaining === 0) this.#exhaustedUntilMs.set(name, this.#parts.clock.monotonicMs() + resetMs)
    return { policy, exceeded: consumedPoints > policy.requests, remaining, resetMs }
  }
}
