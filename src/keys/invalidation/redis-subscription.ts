import { type Clock, systemTimers, type TurnTimers } from '../../domain/clock.ts'
import { CHANGES_CHANNEL } from '../../domain/wire.ts'
import { asError, type FailureLog } from '../../observability/failure-log.ts'
import type { ConnectionEvents, ServerConnection } from '../../redis/redis-connection.ts'
import type { InvalidationListener } from './invalidation-listener.ts'

/** If no heartbeat arrives for this long, the open connection is replaced; each time, the interval doubles. */
const RECONNECT_AFTER_MS = 2_000
const MAX_RECONNECT_AFTER_MS = 30_000
/** Until then the subscription is repeated this often: its reply may be lost, and a connection that Redis has forgotten closes. */
const REPEAT_AFTER_MS = 1_000

/** After this many messages (about 2 ms), the event loop handles requests before further messages. */
const MAX_MESSAGES_IN_TURN = 250

/** Passes messages from Redis to the invalidation listener, over a connection of its own. */
export class RedisSubscription implements ConnectionEvents {
  readonly #listener: InvalidationListener
  readonly #clock: Clock
  readonly #failures: FailureLog
  readonly #timers: TurnTimers
  #connection: ServerConnection | null = null
  #subscription = 0
  /** Whether a subscription on this connection got its reply. */
  #isSubscribed = false
  #disconnectedSinceMs: number
  #subscribedAtMs = Number.NEGATIVE_INFINITY
  #reconnectAfterMs = RECONNECT_AFTER_MS
  #messagesInTurn = 0

  constructor(deps: {
    listener: InvalidationListener
    clock: Clock
    failures: FailureLog
    timers?: TurnTimers
  }) {
    this.#listener = deps.listener
    this.#clock = deps.clock
    this.#failures = deps.failures
    this.#timers = deps.timers ?? systemTimers
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
    this.#isSubscribed = false
    this.#listener.lost()
  }

  /** Reconnects if no heartbeat arrives. Must be called a few times a second. */
  watch(): void {
    const nowMs = this.#clock.monotonicMs()
    if (this.#listener.isConnected(nowMs)) {
      this.#disconnectedSinceMs = nowMs
      this.#reconnectAfterMs = RECONNECT_AFTER_MS
      this.#failures.succeeded()
    } else if (this.#connection?.isReady === true) {
      const silentMs = nowMs - this.#disconnectedSinceMs
      if (silentMs > this.#reconnectAfterMs) this.#reconnect(this.#connection, nowMs)
      else if (nowMs - this.#subscribedAtMs > REPEAT_AFTER_MS) void this.#subscribe()
    }
  }

  /** Unread messages wait in Redis in order, heartbeats included: a gateway that falls behind disconnects. */
  #receive(text: string, connection: ServerConnection): void {
    this.#listener.receive(text)
    this.#messagesInTurn++
    if (this.#messagesInTurn === 1) this.#timers.nextTurn(() => this.#beginTurn(connection))
    if (this.#messagesInTurn === MAX_MESSAGES_IN_TURN) connection.pauseReading()
  }

  #beginTurn(connection: ServerConnection): void {
    if (this.#messagesInTurn >= MAX_MESSAGES_IN_TURN) connection.resumeReading()
    this.#messagesInTurn = 0
  }

  /** Only `watch` retries a rejected subscription: an ACL that forbids it would cause an endless loop. */
  async #subscribe(): Promise<void> {
    const subscription = ++this.#subscription
    this.#subscribedAtMs = this.#clock.monotonicMs()
    try {
      await this.#connection?.client.subscribe(CHANGES_CHANNEL)
      if (subscription !== this.#subscription) return // The reply belongs to an earlier connection.
      this.#connection?.answered()
      // A repeated one begins no epoch: it would end each lookup that waits for a slow key service.
      if (this.#isSubscribed) return
      this.#isSubscribed = true
      this.#listener.subscribed()
    } catch (thrown) {
      const error = asError(thrown)
      this.#failures.failed(error, this.#connection?.refused(error))
    }
  }

  #reconnect(connection: ServerConnection, nowMs: number): void {
    this.#disconnectedSinceMs = nowMs
    this.#giveUpOnHeartbeats()
    this.onLost()
    connection.reconnect()
  }

  #giveUpOnHeartbeats(): void {
    this.#reconnectAfterMs = Math.min(MAX_RECONNECT_AFTER_MS, this.#reconnectAfterMs * 2)
    this.#failures.failed(
      new Error(
        'Redis is connected, but no valid heartbeat arrives: check that the console runs with the same signing secrets, and names this region',
      ),
    )
  }
}
