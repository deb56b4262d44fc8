import type { Clock } from '../domain/clock.ts'
import type { COMMAND_OUTCOMES, Metrics } from '../observability/metrics.ts'
import type { RedisConnection } from './redis-connection.ts'
import type { RedisGet } from './redis-store.ts'
import { asError } from './trouble-log.ts'

type Outcome = (typeof COMMAND_OUTCOMES)[number]

/** A connection on which nothing was answered for this long is made again: the address may lead elsewhere by now. */
const SILENT_MS = 1_000
/** Timers of Node fire up to a millisecond early by the finer clock. */
const TIMER_SLACK_MS = 2

/** GET, measured. Where there is no connection it fails at once; a frozen server costs the command timeout. */
export class RedisReader implements RedisGet {
  readonly #connection: RedisConnection
  readonly #metrics: Metrics
  readonly #clock: Clock
  readonly #timeoutMs: number
  #silentSinceMs: number | null = null

  constructor(
    connection: RedisConnection,
    deps: { metrics: Metrics; clock: Clock; commandTimeoutMs: number },
  ) {
    this.#connection = connection
    this.#metrics = deps.metrics
    this.#clock = deps.clock
    this.#timeoutMs = deps.commandTimeoutMs
  }

  async get(key: string): Promise<string | null> {
    const beganMs = this.#clock.monotonicMs()
    try {
      const text = await this.#connection.redis.get(key)
      this.#count('ok', beganMs)
      return text
    } catch (error) {
      this.#count(this.#outcomeOf(asError(error), beganMs), beganMs)
      throw error
    }
  }

  #outcomeOf(error: Error, beganMs: number): Outcome {
    if (error.name === 'ReplyError') return 'error'
    const elapsedMs = this.#clock.monotonicMs() - beganMs
    return elapsedMs >= this.#timeoutMs - TIMER_SLACK_MS ? 'timeout' : 'unavailable'
  }

  #count(outcome: Outcome, beganMs: number): void {
    const nowMs = this.#clock.monotonicMs()
    this.#metrics.redisCommands.inc({ command: 'get', outcome })
    if (outcome === 'timeout') this.#endureSilence(beganMs, nowMs)
    else this.#silentSinceMs = null
    if (outcome === 'unavailable') return
    this.#metrics.redisCommandDuration.observe({ command: 'get' }, (nowMs - beganMs) / 1000)
  }

  #endureSilence(beganMs: number, nowMs: number): void {
    this.#silentSinceMs ??= beganMs
    if (nowMs - this.#silentSinceMs < SILENT_MS) return
    this.#silentSinceMs = null
    this.#connection.remake()
  }
}
