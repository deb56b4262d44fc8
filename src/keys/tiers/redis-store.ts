import type { KeyObject } from 'node:crypto'
import type { Clock } from '../../domain/clock.ts'
import { classifyRedisError } from '../../domain/redis-failure.ts'
import {
  decodeRecord,
  MAX_RECORD_BYTES,
  RECORD_RANGE_END,
  REDIS_PROBE_KEYS,
  recordKeyName,
} from '../../domain/wire.ts'
import { asError, type FailureLog } from '../../observability/failure-log.ts'
import {
  COMMAND_OUTCOMES,
  type CounterHandle,
  type HistogramHandle,
  handlesBy,
  type Metrics,
} from '../../observability/metrics/metrics.ts'
import {
  anyGoodAnswer,
  CHECK_EVERY_MS,
  isReplyError,
  probePauseMs,
  TIMER_SLACK_MS,
} from '../../redis/answering.ts'
import type { RedisConnection } from '../../redis/redis-connection.ts'
import type { FailureReason, KeyTier, TierResult } from './key-store.ts'

/** The part of a Redis client that a lookup needs. */
interface RecordReader {
  /** At most one byte more than a record may have; empty if there is no entry. */
  read(key: string): Promise<Uint8Array>
}

/** The error of a lookup for which no command was sent. */
export class RedisSkipped extends Error {}

/** Records in Redis. Write access to Redis makes no key valid: a record without a valid MAC counts as a miss. */
export class RedisStore implements KeyTier {
  readonly name = 'redis'
  readonly #redis: RecordReader
  readonly #recordKeys: () => readonly KeyObject[] | null

  /** @param recordKeys one of them must have made a record's MAC; null only if keys are opaque and records unsigned */
  constructor(redis: RecordReader, recordKeys: () => readonly KeyObject[] | null) {
    this.#redis = redis
    this.#recordKeys = recordKeys
  }

  async get(digest: string): Promise<TierResult> {
    try {
      const bytes = await this.#redis.read(recordKeyName(digest))
      // GETRANGE returns an empty string for a missing key.
      return bytes.length === 0 ? { kind: 'miss' } : this.#decode(bytes, digest)
    } catch (thrown) {
      const error = asError(thrown)
      return { kind: 'failed', error, why: classifyFailure(error) }
    }
  }

  #decode(bytes: Uint8Array, digest: string): TierResult {
    if (bytes.length > MAX_RECORD_BYTES) return { kind: 'miss', unreadable: true }
    const decoded = decodeRecord(Buffer.from(bytes).toString(), digest, this.#recordKeys())
    return decoded.ok ? { kind: 'found', grant: decoded.grant } : { kind: 'miss', unreadable: true }
  }
}

/** A Redis that replies with an error, such as while it loads its data, is reachable. */
function classifyFailure(error: Error): FailureReason {
  if (error instanceof RedisSkipped) return 'skipped'
  return isReplyError(error) ? 'unusable' : 'unreachable'
}

type Outcome = (typeof COMMAND_OUTCOMES)[number]

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
      this.#count(this.#classifyOutcome(asError(error), beganMs), beganMs)
      throw error
    }
  }

  #classifyOutcome(error: Error, beganMs: number): Outcome {
    if (isReplyError(error)) return 'error'
    const elapsedMs = this.#clock.monotonicMs() - beganMs
    return elapsedMs >= this.#timeoutMs - TIMER_SLACK_MS ? 'timeout' : 'unavailable'
  }

  #count(outcome: Outcome, beganMs: number): void {
    this.#outcomes[outcome].inc()
    if (outcome !== 'unavailable') this.#duration.observe((this.#clock.monotonicMs() - beganMs) / 1000)
  }
}

interface ReaderHealthParts {
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

  /** A lookup: an error that every lookup would get counts at once. In a cluster, each node answers for its own keys alone. */
  async watched<Reply>(look: () => Promise<Reply>): Promise<Reply> {
    try {
      return await look()
    } catch (thrown) {
      const error = asError(thrown)
      const isAnswer = isReplyError(error) && classifyRedisError(error, true).isGeneral
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
