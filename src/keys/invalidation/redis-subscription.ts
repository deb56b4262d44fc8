import type { Clock } from '../../domain/clock.ts'
import { CHANGES_CHANNEL } from '../../domain/wire.ts'
import { asError, type FailureLog } from '../../observability/failure-log.ts'
import type { ConnectionEvents, ServerConnection } from '../../redis/redis-connection.ts'
import type { InvalidationListener } from './invalidation-listener.ts'

/** An open connection on which no heartbeat arrives for this long is made anew, less often each time. */
const REMAKE_AFTER_MS = 2_000
const MAX_REMAKE_AFTER_MS = 30_000

/** Requests have their turn of the event loop after this many messages, about 2 ms. */
const MAX_MESSAGES_IN_TURN = 250

/** Passes messages of Redis to the invalidation listener. Its connection serves nothing else. */
export class RedisSubscription implements ConnectionEvents {
  readonly #listener: InvalidationListener
  readonly #clock: Clock
  readonly #failures: FailureLog
  #connection: ServerConnection | null = null
  #subscription = 0
  #disconnectedSinceMs: number
  #remakeAfterMs = REMAKE_AFTER_MS
  #messagesInTurn = 0

  constructor(deps: { listener: InvalidationListener; clock: Clock; failures: FailureLog }) {
    this.#listener = deps.listener
    this.#clock = deps.clock
    this.#failures = deps.failures
    this.#disconnectedSinceMs = deps.clock.monotonicMs()
  }

  /** @param connection not yet started, with this subscription as its events */
  attach(connection: ServerConnection): void {
    this.#connection = connection
    connection.client.on('message', (_channel: string, text: string) => this.#receive(text, connection))
  }

  onReady(): void {
    this.#disconnectedSinceMs = this.#clock.monotonicMs()
    void this.#subscribe()
  }

  onLost(): void {
    this.#subscription++
    this.#listener.lost()
  }

  /** Must be called a few times a second. */
  watch(): void {
    const nowMs = this.#clock.monotonicMs()
    if (this.#listener.isConnected(nowMs)) {
      this.#disconnectedSinceMs = nowMs
      this.#remakeAfterMs = REMAKE_AFTER_MS
      this.#failures.succeeded()
    } else if (
      this.#connection?.isReady === true &&
      nowMs - this.#disconnectedSinceMs > this.#remakeAfterMs
    ) {
      this.#remake(this.#connection, nowMs)
    }
  }

  /** What is not read yet waits in Redis in its order, heartbeats included: a gateway that falls behind disconnects. */
  #receive(text: string, connection: ServerConnection): void {
    this.#listener.receive(text)
    this.#messagesInTurn++
    if (this.#messagesInTurn === 1) setImmediate(() => this.#beginTurn(connection))
    if (this.#messagesInTurn === MAX_MESSAGES_IN_TURN) connection.pauseReading()
  }

  #beginTurn(connection: ServerConnection): void {
    if (this.#messagesInTurn >= MAX_MESSAGES_IN_TURN) connection.resumeReading()
    this.#messagesInTurn = 0
  }

  /** A refused subscription is repeated only by `watch`: with an ACL that forbids it there would be no end. */
  async #subscribe(): Promise<void> {
    const subscription = ++this.#subscription
    try {
      await this.#connection?.client.subscribe(CHANGES_CHANNEL)
      if (subscription !== this.#subscription) return // The answer belongs to an earlier connection.
      this.#listener.subscribed()
    } catch (error) {
      this.#failures.failed(asError(error))
    }
  }

  #remake(connection: ServerConnection, nowMs: number): void {
    this.#disconnectedSinceMs = nowMs
    this.#remakeAfterMs = Math.min(MAX_REMAKE_AFTER_MS, this.#remakeAfterMs * 2)
    this.#failures.failed(
      new Error(
        'Redis is connected, but no valid heartbeat of the key service arrives: is it running, and with the same signing secrets?',
      ),
    )
    this.onLost()
    connection.remake()
  }
}
