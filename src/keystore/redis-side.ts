import type { KeyObject } from 'node:crypto'
import type { Clock } from '../domain/clock.ts'
import type { Metrics } from '../observability/metrics.ts'
import type { Changes } from './changes.ts'
import type { KeyTier } from './key-store.ts'
import { RedisChangeSource } from './redis-change-source.ts'
import { RedisConnection } from './redis-connection.ts'
import { type RedisSettings, redisOptions } from './redis-options.ts'
import { RedisReader } from './redis-reader.ts'
import { RedisStore } from './redis-store.ts'
import { type Log, TroubleLog } from './trouble-log.ts'

export interface RedisSideParts {
  readonly settings: RedisSettings
  readonly recordKeys: readonly KeyObject[] | null
  readonly changes: Changes
  readonly clock: Clock
  readonly metrics: Metrics
  readonly logger: Log
}

/** All that a gateway has to do with Redis: one connection that reads, one that hears. */
export class RedisSide {
  readonly tier: KeyTier
  readonly #reader: RedisConnection
  readonly #subscriber: RedisConnection
  readonly #source: RedisChangeSource

  constructor(parts: RedisSideParts) {
    const { settings, changes, clock, metrics } = parts
    const troubleOf = (part: string): TroubleLog => new TroubleLog(part, parts.logger, clock)
    const options = redisOptions(settings)
    this.#source = new RedisChangeSource({ changes, clock, trouble: troubleOf('changes') })
    this.#reader = new RedisConnection(options, { metrics, trouble: troubleOf('redis reader') })
    this.#subscriber = new RedisConnection(options, {
      metrics,
      trouble: troubleOf('redis subscriber'),
      events: this.#source,
    })
    this.#source.attach(this.#subscriber)
    const { commandTimeoutMs } = settings
    this.tier = new RedisStore(
      new RedisReader(this.#reader, { metrics, clock, commandTimeoutMs }),
      parts.recordKeys,
    )
  }

  get isUp(): boolean {
    return this.#reader.isReady
  }

  start(): void {
    this.#reader.start()
    this.#subscriber.start()
  }

  stop(): void {
    this.#reader.stop()
    this.#subscriber.stop()
  }

  /** To be called a few times a second. */
  watch(): void {
    this.#source.watch()
  }
}
