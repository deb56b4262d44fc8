import { LRUCache } from 'lru-cache'
import type { RateLimiterRedis } from 'rate-limiter-flexible'
import { narrowReload, type OnReload } from '../config/reloadable.ts'
import type { Config } from '../config/schema/schema.ts'
import { atMost } from '../domain/bounded.ts'
import { Circuit } from '../domain/circuit.ts'
import type { Clock } from '../domain/clock.ts'
import { listPolicies, type PolicyCount } from '../domain/rate-limit.ts'
import { findRedisTopology } from '../domain/redis-address.ts'
import { asError, FailureLog, type Log } from '../observability/failure-log.ts'
import type { Metrics } from '../observability/metrics/metrics.ts'
import { createCommandClient, type RedisClient } from '../redis/clients.ts'
import { RedisConnection } from '../redis/redis-connection.ts'
import type { NearLimits } from './near-limits.ts'
import {
  type GatewayCount,
  LocalCounters,
  type RateCounter,
  RateLimiter,
  type SharedCounters,
  toPolicyCount,
  UnknownPlans,
} from './rate-limiter.ts'

/** Failures within this time count as one: when this process stalls, many commands time out together. */
const MERGE_FAILURES_MS = 20

type Settings = Pick<Config, 'limits' | 'redis'>

interface RateLimitSettings {
  readonly config: Settings
  readonly gateways: GatewayCount
  /** Notes the windows that are nearly used up. */
  readonly nearLimits: NearLimits
  readonly metrics: Metrics
  readonly logger: Log
  readonly clock: Clock
  /** Calls back when policies or the credentials for Redis change. */
  readonly onReload: OnReload<Settings>
}

interface RunningRateLimits {
  readonly limits: RateLimiter
  /** `shared`: counted in Redis; `local`: counted by each gateway alone; `off`: no policy is configured. */
  health(): 'shared' | 'local' | 'off'
  stop(): void
}

/** Starts to connect to Redis if one is configured and there is a policy, and does not wait for the connection. */
export async function createRateLimits(parts: RateLimitSettings): Promise<RunningRateLimits> {
  const { config, logger, clock, metrics, gateways, nearLimits, onReload } = parts
  const shared = findRedisTopology(config.redis) === null ? null : new SharedLimits(parts)
  const unknownPlans = new UnknownPlans(logger, metrics)
  const local = new LocalCounters()
  const settings = config.limits
  const counting = { gateways, shared, local, unknownPlans, nearLimits }
  const limits = new RateLimiter({ settings, ...counting, clock, metrics })
  let isOn = listPolicies(settings).length > 0
  if (isOn) await shared?.start()
  onReload(next => () => {
    limits.replacePolicies(next.limits)
    unknownPlans.policiesChanged()
    isOn = listPolicies(next.limits).length > 0
    if (isOn) void shared?.start()
  })
  const backend = () => (shared?.isShared() === true ? 'shared' : 'local')
  return { limits, health: () => (isOn ? backend() : 'off'), stop: () => shared?.stop() }
}

/** Redis, once there is a policy to count for. */
class SharedLimits implements SharedCounters {
  readonly #parts: RateLimitSettings
  readonly #failures: FailureLog
  #starting: Promise<void> | null = null
  #redis: RedisLimits | null = null
  #isStopped = false

  constructor(parts: RateLimitSettings) {
    this.#parts = parts
    this.#failures = new FailureLog('redis rate limits', parts.logger, parts.clock)
  }

  /** Never rejects. Only the first call has an effect. */
  start(): Promise<void> {
    this.#starting ??= connect(this.#parts, this.#failures).then(
      redis => {
        this.#redis = redis
        if (this.#isStopped) redis.connection.stop()
      },
      (thrown: unknown) => this.#failures.failed(asError(thrown)),
    )
    return this.#starting
  }

  async count(counters: readonly RateCounter[], nowMs: number): Promise<readonly PolicyCount[] | null> {
    return this.#redis === null ? null : this.#redis.counters.count(counters, nowMs)
  }

  isShared(): boolean {
    return this.#redis?.isShared() === true
  }

  stop(): void {
    this.#isStopped = true
    this.#redis?.connection.stop()
  }
}

interface RedisLimits {
  readonly connection: RedisConnection<RedisClient>
  readonly counters: RedisCounters
  readonly isShared: () => boolean
}

/** A separate connection, so that counting and lookups do not wait for each other. */
async function connect(parts: RateLimitSettings, failures: FailureLog): Promise<RedisLimits> {
  const { config, metrics, clock, onReload } = parts
  // Loaded only if there is a policy to count for.
  const { RateLimiterRedis } = await import('rate-limiter-flexible')
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
  // Each count names its own window; the library's limit is not used.
  const windows = new RateLimiterRedis({
    storeClient: connection.client,
    points: 1,
    duration: 1,
    keyPrefix: '',
  })
  connection.start()
  return {
    connection,
    counters: new RedisCounters({
      connection,
      windows,
      circuit,
      clock,
      failures,
      raise: (counter, used) => connection.client.eval(RAISE, 1, counter, used),
    }),
    isShared: () =>
      connection.isReady &&
      connection.failure?.isAnswer !== true &&
      circuit.state(clock.monotonicMs()) === 'closed',
  }
}

/** Windows that are remembered: exhausted ones, and those of calendar months. */
const MAX_KNOWN = 100_000

/** At least so many requests were counted. Adding 0 reads a counter without the right to GET. */
const RAISE = `
local missing = ARGV[1] - redis.call('incrby', KEYS[1], 0)
if missing > 0 then redis.call('incrby', KEYS[1], missing) end`

interface RedisCountersParts {
  readonly connection: Pick<
    RedisConnection,
    'isReady' | 'reconnect' | 'writeTogether' | 'answered' | 'refused'
  >
  readonly windows: Pick<RateLimiterRedis, 'penalty'>
  /** Raises a counter in Redis to this number of requests. */
  readonly raise: (counter: string, used: number) => Promise<unknown>
  readonly circuit: Circuit
  readonly clock: Clock
  readonly failures: FailureLog
}

/** A window as it was last seen. If it is exhausted, another plan may allow more in it, and so may changed settings. */
interface KnownWindow {
  readonly used: number
  /** Monotonic, ms. */
  readonly endsAtMs: number
}

/**
 * Windows in Redis. All counters of a request are sent together: one round trip, limited by `redis.commandTimeoutMs`.
 */
export class RedisCounters implements SharedCounters {
  readonly #parts: RedisCountersParts
  readonly #known = new LRUCache<string, KnownWindow>(atMost(MAX_KNOWN))

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
    return counters.flatMap(counter => {
      const known = this.#known.get(counter.name)
      if (known === undefined || known.used < counter.requests || known.endsAtMs <= nowMs) return []
      return [toPolicyCount(counter, known.used + 1, known.endsAtMs - nowMs)]
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
  async #countAt(counter: RateCounter): Promise<PolicyCount> {
    const { windows, clock } = this.#parts
    const customDuration = counter.window.keptSeconds
    const { consumedPoints, msBeforeNext } = await windows.penalty(counter.name, 1, { customDuration })
    const used = counter.policy.window === 'month' ? this.#restore(counter, consumedPoints) : consumedPoints
    if (used >= counter.requests || counter.policy.window === 'month') {
      this.#known.set(counter.name, { used, endsAtMs: clock.monotonicMs() + msBeforeNext })
    }
    return toPolicyCount(counter, used, msBeforeNext)
  }

  /**
   * A month is counted once, so a lower number than before means that Redis lost the counter. The gateway that counted last
   * knows its value.
   * @returns how many requests were counted at least, this one included
   */
  #restore({ name }: RateCounter, counted: number): number {
    const before = this.#known.get(name)?.used ?? 0
    if (counted > before) return counted
    const { raise, connection, failures } = this.#parts
    const used = before + 1
    // No request waits for it. After a failure the next request raises the counter.
    raise(name, used).catch((thrown: unknown) =>
      failures.failed(asError(thrown), connection.refused(asError(thrown))),
    )
    return used
  }
}
