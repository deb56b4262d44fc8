import { type RedisFailure, redisFailureOf } from '../domain/redis-failure.ts'
import type { Metrics } from '../observability/metrics/metrics.ts'
import { isReplyError } from './reply-error.ts'

/** The metric that counts failing connections by cause. */
export type FailingGauge = Metrics['redisFailing']

/**
 * Why a connection fails, from its errors since the last good answer. That a connection closed says less than an error before it, such as
 * a rejected password, so it replaces none.
 */
export class ConnectionTrouble {
  readonly #gauge: FailingGauge | null
  #failure: RedisFailure | null = null

  constructor(gauge: FailingGauge | null) {
    this.#gauge = gauge
  }

  /** Null after a good answer. */
  get failure(): RedisFailure | null {
    return this.#failure
  }

  /** @returns why the connection fails now */
  note(error: Error): RedisFailure {
    const found = redisFailureOf(error, isReplyError(error))
    const isVague = found.cause === 'closed' || found.cause === 'other'
    if (this.#failure === null || !isVague) this.#set(found)
    return this.#failure ?? found
  }

  clear(): void {
    if (this.#failure !== null) this.#set(null)
  }

  #set(failure: RedisFailure | null): void {
    const before = this.#failure?.cause
    this.#failure = failure
    if (before === failure?.cause) return
    if (before !== undefined) this.#gauge?.dec({ cause: before })
    if (failure !== null) this.#gauge?.inc({ cause: failure.cause })
  }
}
