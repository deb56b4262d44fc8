import { LRUCache } from 'lru-cache'
import type { RateLimiterRedis } from 'rate-limiter-flexible'
import type { Circuit } from '../domain/circuit.ts'
import type { Clock } from '../domain/clock.ts'
import type { Count, RatePolicy } from '../domain/rate-limit.ts'
import { asError, type FailureLog } from '../observability/failure-log.ts'
import type { RedisConnection } from '../redis/redis-connection.ts'
import type { Counter } from './local-counters.ts'
import type { SharedCounters } from './rate-limiter.ts'

/** Callers remembered as having exhausted a limit; for the others Redis is asked again. */
const MAX_EXHAUSTED = 100_000

export interface RedisCountersParts {
  readonly connection: Pick<RedisConnection, 'isReady' | 'remake' | 'writeTogether'>
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

  async count(counters: readonly Counter[], nowMs: number): Promise<readonly Count[] | null> {
    const exhausted = this.#exhaustedOf(counters, nowMs)
    if (exhausted.length > 0) return exhausted
    const { connection, circuit } = this.#parts
    const state = circuit.state(nowMs)
    if (!connection.isReady || !circuit.admits(nowMs)) return null
    const asked = this.#ask(counters)
    // A probe of the circuit delays no request: this process counts the request itself.
    return state === 'closed' ? await asked : null
  }

  /**
   * An exhausted window grants nothing until it ends. Rejecting its requests here costs Redis nothing, and a key that
   * exhausted its own limit does not use up the limit of its workspace.
   */
  #exhaustedOf(counters: readonly Counter[], nowMs: number): Count[] {
    return counters.flatMap(({ policy, name }) => {
      const resetMs = (this.#exhaustedUntilMs.get(name) ?? 0) - nowMs
      return resetMs > 0 ? [{ policy, exceeded: true, remaining: 0, resetMs }] : []
    })
  }

  /** Never rejects. */
  async #ask(counters: readonly Counter[]): Promise<readonly Count[] | null> {
    const { connection, circuit, failures, clock } = this.#parts
    try {
      connection.writeTogether()
      const counts = await Promise.all(counters.map(counter => this.#countAt(counter)))
      circuit.succeeded()
      failures.succeeded()
      return counts
    } catch (thrown) {
      const error = asError(thrown)
      // An error reply, such as for a missing right or memory, arrives at once: no reason to open the circuit.
      if (error.name === 'ReplyError') circuit.succeeded()
      else circuit.failed(clock.monotonicMs())
      // A primary that became a replica may keep its connections open.
      if (error.message.startsWith('READONLY ')) connection.remake()
      failures.failed(error)
      return null
    }
  }

  /** The library's `consume` also decides; `penalty` counts the same way and only returns the count. */
  async #countAt({ policy, name }: Counter): Promise<Count> {
    const limiter = this.#parts.limiters.get(policy)
    if (limiter === undefined) throw new Error(`no counter for the rate limit policy ${policy.name}`)
    const { consumedPoints, msBeforeNext } = await limiter.penalty(name)
    const remaining = Math.max(0, policy.requests - consumedPoints)
    const resetMs = Math.max(0, msBeforeNext)
    if (remaining === 0) this.#exhaustedUntilMs.set(name, this.#parts.clock.monotonicMs() + resetMs)
    return { policy, exceeded: consumedPoints > policy.requests, remaining, resetMs }
  }
}
