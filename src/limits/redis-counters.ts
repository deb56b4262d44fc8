import { LRUCache } from 'lru-cache'
import type { RateLimiterRedis } from 'rate-limiter-flexible'
import type { Circuit } from '../domain/circuit.ts'
import type { Clock } from '../domain/clock.ts'
import type { PolicyCount, RatePolicy } from '../domain/limits/rate-limit.ts'
import { asError, type FailureLog } from '../observability/failure-log.ts'
import type { RedisConnection } from '../redis/redis-connection.ts'
import type { RateCounter } from './local-counters.ts'
import type { SharedCounters } from './rate-limiter.ts'

/** Exhausted windows that are remembered; for others, Redis counts each request. */
const MAX_EXHAUSTED = 100_000

export interface RedisCountersParts {
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
    const exhausted = this.#exhaustedOf(counters, nowMs)
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
  #exhaustedOf(counters: readonly RateCounter[], nowMs: number): PolicyCount[] {
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
