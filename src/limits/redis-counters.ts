import { LRUCache } from 'lru-cache'
import type { RateLimiterRedis } from 'rate-limiter-flexible'
import type { Circuit } from '../domain/circuit.ts'
import type { Clock } from '../domain/clock.ts'
import type { Count, RatePolicy } from '../domain/rate-limit.ts'
import { asError, type TroubleLog } from '../observability/trouble-log.ts'
import type { RedisConnection } from '../redis/redis-connection.ts'
import type { Counter } from './local-counters.ts'
import type { SharedCounters } from './rate-limiter.ts'

/** Callers that are known to have exhausted a limit; of more than these Redis is asked again. */
const MAX_EXHAUSTED = 100_000

export interface RedisCountersParts {
  readonly connection: Pick<RedisConnection, 'isReady' | 'remake' | 'writeTogether'>
  /** By policy. */
  readonly limiters: ReadonlyMap<RatePolicy, Pick<RateLimiterRedis, 'penalty'>>
  readonly circuit: Circuit
  readonly clock: Clock
  readonly trouble: TroubleLog
}

/**
 * Windows in Redis. The counters of a request go out together, and nobody waits for one before the next: it is one round
 * trip, bounded by `redis.commandTimeoutMs`.
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
    // Nobody waits for a probe: its request is decided here meanwhile.
    return state === 'closed' ? await asked : null
  }

  /**
   * A window that is used up gives nothing back before its end: whoever goes on asking is refused here, at no cost to
   * Redis, and uses up nothing of a further policy, such as the workspace's while it is the key's that is exhausted.
   */
  #exhaustedOf(counters: readonly Counter[], nowMs: number): Count[] {
    return counters.flatMap(({ policy, name }) => {
      const resetMs = (this.#exhaustedUntilMs.get(name) ?? 0) - nowMs
      return resetMs > 0 ? [{ policy, exceeded: true, remaining: 0, resetMs }] : []
    })
  }

  /** Never rejects. */
  async #ask(counters: readonly Counter[]): Promise<readonly Count[] | null> {
    const { connection, circuit, trouble, clock } = this.#parts
    try {
      connection.writeTogether()
      const counts = await Promise.all(counters.map(counter => this.#countAt(counter)))
      circuit.succeeded()
      trouble.works()
      return counts
    } catch (thrown) {
      const error = asError(thrown)
      // What Redis refuses, for want of a right or of memory, it refuses at once: no reason not to ask again.
      if (error.name === 'ReplyError') circuit.succeeded()
      else circuit.failed(clock.monotonicMs())
      // A primary that was made a replica may keep its connections.
      if (error.message.startsWith('READONLY ')) connection.remake()
      trouble.failed(error)
      return null
    }
  }

  /** The library's `consume` would judge, too; `penalty` counts the same way and says only how it stands. */
  async #countAt({ policy, name }: Counter): Promise<Count> {
    const limiter = this.#parts.limiters.get(policy)
    if (limiter === undefined) throw new Error(`Nothing counts for the policy ${policy.name}`)
    const { consumedPoints, msBeforeNext } = await limiter.penalty(name)
    const remaining = Math.max(0, policy.requests - consumedPoints)
    const resetMs = Math.max(0, msBeforeNext)
    if (remaining === 0) this.#exhaustedUntilMs.set(name, this.#parts.clock.monotonicMs() + resetMs)
    return { policy, exceeded: consumedPoints > policy.requests, remaining, resetMs }
  }
}
