import type { Clock } from '../../../domain/clock.ts'
import { RECORD_RANGE_END } from '../../../domain/wire.ts'
import { asError } from '../../../observability/failure-log.ts'
import {
  COMMAND_OUTCOMES,
  type CounterHandle,
  type HistogramHandle,
  handlesBy,
  type Metrics,
} from '../../../observability/metrics/metrics.ts'
import type { RedisConnection } from '../../../redis/redis-connection.ts'
import { isReplyError } from '../../../redis/reply-error.ts'
import type { RecordReader } from './redis-store.ts'

type Outcome = (typeof COMMAND_OUTCOMES)[number]

/** Node's timers fire up to a millisecond early by the monotonic clock. */
const TIMER_SLACK_MS = 2

/** Reads records with GETRANGE, and measures it. Fails at once without a connection, and after the command timeout. */
export class MeasuredReader implements RecordReader {
  readonly #connection: RedisConnection
  readonly #outcomes: Readonly<Record<Outcome, CounterHandle>>
  readonly #duration: HistogramHandle
  readonly #clock: Clock
  readonly #timeoutMs: number

  constructor(
    connection: RedisConnection,
    deps: { metrics: Metrics; clock: Clock; commandTimeoutMs: number },
  ) {
    this.#connection = connection
    this.#outcomes = handlesBy(COMMAND_OUTCOMES, outcome =>
      deps.metrics.redisCommands.handle({ command: 'getrange', outcome }),
    )
    this.#duration = deps.metrics.redisCommandDuration.handle({ command: 'getrange' })
    this.#clock = deps.clock
    this.#timeoutMs = deps.commandTimeoutMs
  }

  /** @returns at most one byte more than a record may have; empty if there is no entry */
  async read(key: string): Promise<Buffer> {
    const beganMs = this.#clock.monotonicMs()
    try {
      this.#connection.writeTogether()
      const bytes = await this.#connection.client.getrangeBuffer(key, 0, RECORD_RANGE_END)
      this.#count('ok', beganMs)
      return bytes
    } catch (error) {
      this.#count(this.#outcomeOf(asError(error), beganMs), beganMs)
      throw error
    }
  }

  #outcomeOf(error: Error, beganMs: number): Outcome {
    if (isReplyError(error)) return 'error'
    const elapsedMs = this.#clock.monotonicMs() - beganMs
    return elapsedMs >= this.#timeoutMs - TIMER_SLACK_MS ? 'timeout' : 'unavailable'
  }

  #count(outcome: Outcome, beganMs: number): void {
    this.#outcomes[outcome].inc()
    if (outcome !== 'unavailable') this.#duration.observe((this.#clock.monotonicMs() - beganMs) / 1000)
  }
}
