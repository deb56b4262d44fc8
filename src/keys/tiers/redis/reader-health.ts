import type { Clock } from '../../../domain/clock.ts'
import { redisFailureOf } from '../../../domain/redis-failure.ts'
import { REDIS_PROBE_KEYS } from '../../../domain/wire.ts'
import { asError, type FailureLog } from '../../../observability/failure-log.ts'
import { anyGoodAnswer, CHECK_EVERY_MS, probePauseMs } from '../../../redis/answering.ts'
import type { RedisConnection } from '../../../redis/redis-connection.ts'
import { isReplyError } from '../../../redis/reply-error.ts'

export interface ReaderHealthParts {
  readonly connection: RedisConnection
  readonly isCluster: boolean
  readonly clock: Clock
  readonly failures: FailureLog
}

/**
 * Whether Redis answers lookups, which an open connection does not show: Redis also accepts one without a password, and so does a single
 * node of a cluster. Probes are lookups of keys that never exist.
 */
export class ReaderHealth {
  readonly #parts: ReaderHealthParts
  #isAnswering = false
  /** Probes in a row that were answered with errors. */
  #refusals = 0
  #probeDueMs = 0
  #isProbing = false
  /** Of the connection. */
  #number = 0

  constructor(parts: ReaderHealthParts) {
    this.#parts = parts
  }

  /** False until the first good answer of a connection. */
  get isAnswering(): boolean {
    return this.#isAnswering
  }

  opened(): void {
    this.#isAnswering = false
    void this.#probe(++this.#number)
  }

  /** Sends a probe when one is due. Must be called a few times a second. */
  watch(): void {
    const { connection, clock } = this.#parts
    if (this.#isProbing || !connection.isReady || clock.monotonicMs() < this.#probeDueMs) return
    void this.#probe(this.#number)
  }

  /** A lookup: an error that meets all lookups counts at once. In a cluster, each node answers for its own keys alone. */
  async watched<Reply>(look: () => Promise<Reply>): Promise<Reply> {
    try {
      return await look()
    } catch (thrown) {
      const error = asError(thrown)
      const isAnswer = isReplyError(error) && redisFailureOf(error, true).isGeneral
      if (isAnswer && !this.#parts.isCluster) this.#note(error)
      throw error
    }
  }

  async #probe(number: number): Promise<void> {
    const { connection, isCluster, clock, failures } = this.#parts
    this.#isProbing = true
    try {
      const answers = REDIS_PROBE_KEYS.map(key => connection.client.getrangeBuffer(key, 0, 0))
      await (isCluster ? anyGoodAnswer(answers) : Promise.all(answers))
      if (number !== this.#number) return
      this.#isAnswering = true
      this.#refusals = 0
      this.#probeDueMs = clock.monotonicMs() + CHECK_EVERY_MS
      connection.answered()
      failures.succeeded()
    } catch (thrown) {
      if (number === this.#number) this.#note(asError(thrown))
    } finally {
      if (number === this.#number) this.#isProbing = false
    }
  }

  #note(error: Error): void {
    const { connection, clock, failures } = this.#parts
    const pauseMs = probePauseMs(this.#refusals)
    if (isReplyError(error)) this.#refusals++
    this.#isAnswering = false
    this.#probeDueMs = clock.monotonicMs() + pauseMs
    failures.failed(error, connection.refused(error))
  }
}
