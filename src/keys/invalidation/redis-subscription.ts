import type { Redis } from 'ioredis'
import type { Clock } from '../../domain/clock.ts'
import { CHANGES_CHANNEL } from '../../domain/wire.ts'
import { asError, type TroubleLog } from '../../observability/trouble-log.ts'
import type { ConnectionEvents, RedisConnection } from '../../redis/redis-connection.ts'
import type { Changes } from './invalidation-listener.ts'

/** A connection that is open and on which nothing is heard is made again; less and less often while that is no help. */
const PATIENCE_MS = 2_000
const MAX_PATIENCE_MS = 30_000

/** After so many announcements in one turn of the event loop requests have theirs: about 2 ms. */
const MAX_IN_TURN = 250

/** Brings the announcements of Redis to the ear. Its connection is for nothing else. */
export class RedisChangeSource implements ConnectionEvents {
  readonly #changes: Changes
  readonly #clock: Clock
  readonly #trouble: TroubleLog
  #connection: RedisConnection<Redis> | null = null
  #subscription = 0
  #deafSinceMs: number
  #patienceMs = PATIENCE_MS
  #heardInTurn = 0

  constructor(deps: { changes: Changes; clock: Clock; trouble: TroubleLog }) {
    this.#changes = deps.changes
    this.#clock = deps.clock
    this.#trouble = deps.trouble
    this.#deafSinceMs = deps.clock.monotonicMs()
  }

  /** @param connection made with this source as its events, not yet started */
  attach(connection: RedisConnection<Redis>): void {
    this.#connection = connection
    connection.client.on('message', (_channel: string, text: string) => this.#hear(text, connection.client))
  }

  onReady(): void {
    this.#deafSinceMs = this.#clock.monotonicMs()
    void this.#subscribe()
  }

  onLost(): void {
    this.#subscription++
    this.#changes.lost()
  }

  /** To be called a few times a second. */
  watch(): void {
    const nowMs = this.#clock.monotonicMs()
    if (this.#changes.isHearing(nowMs)) {
      this.#deafSinceMs = nowMs
      this.#patienceMs = PATIENCE_MS
      this.#trouble.works()
    } else if (this.#connection?.isReady === true && nowMs - this.#deafSinceMs > this.#patienceMs) {
      this.#remake(this.#connection, nowMs)
    }
  }

  /** What is not read now waits with Redis, in its order, beats included: a gateway that falls behind goes deaf. */
  #hear(text: string, { stream }: Redis): void {
    this.#changes.hear(text)
    this.#heardInTurn++
    if (this.#heardInTurn === 1) setImmediate(() => this.#beginTurn(stream))
    if (this.#heardInTurn === MAX_IN_TURN) stream.pause()
  }

  #beginTurn(stream: Redis['stream']): void {
    if (this.#heardInTurn >= MAX_IN_TURN) stream.resume()
    this.#heardInTurn = 0
  }

  /** A refused subscription is not tried again here but by `watch`: an ACL that forbids it would be asked without end. */
  async #subscribe(): Promise<void> {
    const subscription = ++this.#subscription
    try {
      await this.#connection?.client.subscribe(CHANGES_CHANNEL)
      if (subscription !== this.#subscription) return // The answer of a connection that is gone.
      this.#changes.subscribed()
    } catch (error) {
      this.#trouble.failed(asError(error))
    }
  }

  #remake(connection: RedisConnection<Redis>, nowMs: number): void {
    this.#deafSinceMs = nowMs
    this.#patienceMs = Math.min(MAX_PATIENCE_MS, this.#patienceMs * 2)
    this.#trouble.failed(
      new Error(
        'Redis is connected, but no valid heartbeat of the key service arrives: is it running, and with the same signing secrets?',
      ),
    )
    this.onLost()
    connection.remake()
  }
}
