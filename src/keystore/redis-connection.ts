import { Redis } from 'ioredis'
import type { Metrics } from '../observability/metrics.ts'
import type { RedisOptions } from './redis-options.ts'
import type { TroubleLog } from './trouble-log.ts'

export interface RedisEvents {
  onReady?(): void
  onLost?(): void
}

/** One connection, and what is told of it. It comes up by itself, for ever; nobody waits for it. */
export class RedisConnection {
  readonly redis: Redis
  readonly #trouble: TroubleLog
  readonly #events: RedisEvents
  #stopped = false
  #remaking = false

  constructor(options: RedisOptions, deps: { metrics: Metrics; trouble: TroubleLog; events?: RedisEvents }) {
    this.redis = new Redis(options)
    this.#trouble = deps.trouble
    this.#events = deps.events ?? {}
    // Without a listener ioredis prints errors as plain text among the JSON of the log.
    this.redis.on('error', (error: Error) => this.#failed(error))
    this.redis.on('close', () => this.#lost())
    this.redis.on('ready', () => this.#ready())
    this.redis.on('reconnecting', () => deps.metrics.redisReconnects.inc())
  }

  get isReady(): boolean {
    return this.redis.status === 'ready'
  }

  start(): void {
    this.redis.connect().catch(() => {}) // Told by the listeners, and tried again without end.
  }

  stop(): void {
    this.#stopped = true
    this.redis.disconnect()
  }

  /** For a connection that is open and says nothing; who asks for it tells why. */
  remake(): void {
    if (this.#stopped) return
    this.#remaking = true
    this.redis.disconnect(true)
  }

  #ready(): void {
    this.#trouble.works()
    this.#events.onReady?.()
  }

  #lost(): void {
    if (!this.#remaking) this.#failed(new Error('The connection was closed'))
    this.#remaking = false
    this.#events.onLost?.()
  }

  #failed(error: Error): void {
    if (!this.#stopped) this.#trouble.failed(error)
  }
}
