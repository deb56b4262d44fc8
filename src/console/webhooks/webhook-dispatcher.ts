import type { Clock } from '../../domain/clock.ts'
import { type ControlLogger, causeOf } from '../../observability/control-logger.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import { retryDelayMs } from '../platform/jobs/retry-delay.ts'
import type { Timers } from '../platform/jobs/timers.ts'
import type { Sender, SendResult } from './sender.ts'
import type { OperatorDeliveries } from './webhook-deliveries.ts'
import type { DueDelivery } from './webhook-event.ts'

const POLL_INTERVAL_MS = 1_000
const BATCH_SIZE = 16
/** A claim outlasts an attempt by this; then another console takes over the deliveries of one that died. */
const CLAIM_MARGIN_MS = 10_000

export interface WebhookDispatcherParts {
  readonly deliveries: OperatorDeliveries
  readonly sender: Sender
  readonly timeoutMs: number
  readonly clock: Clock
  readonly timers: Timers
  readonly metrics: Metrics
  readonly logger: ControlLogger
  /** From 0 to 1, for jitter. */
  readonly random: () => number
}

/**
 * Sends due events to the webhook until each is delivered or given up. Delivery is at least once: a console that dies
 * between sending and recording sends the same event id again.
 */
export class WebhookDispatcher {
  readonly #parts: WebhookDispatcherParts
  #round: Promise<void> | null = null
  #cancel = () => {}
  #stopped = false

  constructor(parts: WebhookDispatcherParts) {
    this.#parts = parts
    for (const outcome of ['delivered', 'failed', 'given_up'] as const) {
      parts.metrics.webhookDeliveries.inc({ receiver: 'operator', outcome }, 0)
    }
  }

  start(): void {
    this.#cancel = this.#parts.timers.every(POLL_INTERVAL_MS, () => void this.deliver())
  }

  /** Sends all that is due, one round at a time. It never rejects. */
  deliver(): Promise<void> {
    this.#round ??= this.#deliverAll()
      .catch((error: unknown) => {
        this.#parts.logger.warn({ cause: causeOf(error) }, 'webhook delivery not recorded, retrying')
      })
      .finally(() => {
        this.#round = null
      })
    return this.#round
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancel()
    await this.#round
    await this.#parts.sender.stop()
  }

  async #deliverAll(): Promise<void> {
    const { deliveries, timeoutMs } = this.#parts
    let claimed: DueDelivery[]
    do {
      claimed = await deliveries.claim(BATCH_SIZE, timeoutMs + CLAIM_MARGIN_MS)
      await Promise.all(claimed.map(delivery => this.#attempt(delivery)))
    } while (claimed.length === BATCH_SIZE && !this.#stopped)
  }

  async #attempt(delivery: DueDelivery): Promise<void> {
    const { deliveries, sender, clock, metrics } = this.#parts
    const result = await sender.send(delivery, clock.wallMs())
    if (result.ok) {
      await deliveries.recordAttempt(delivery, { kind: 'delivered', status: result.status })
      metrics.webhookDeliveries.inc({ receiver: 'operator', outcome: 'delivered' })
    } else await this.#recordFailure(delivery, result)
  }

  async #recordFailure(
    delivery: DueDelivery,
    { status, reason, cause }: SendResult & { ok: false },
  ): Promise<void> {
    const { deliveries, clock, metrics, logger, random } = this.#parts
    const attempts = delivery.attempts + 1
    const delayMs = retryDelayMs(attempts, random())
    const dueAtMs = delayMs === null ? null : clock.wallMs() + delayMs
    await deliveries.recordAttempt(delivery, { kind: 'failed', status, reason, dueAtMs })
    metrics.webhookDeliveries.inc({
      receiver: 'operator',
      outcome: delayMs === null ? 'given_up' : 'failed',
    })
    const fields = { eventId: delivery.id, status, reason, ...(cause === null ? {} : { cause }), attempts }
    if (delayMs === null) logger.error(fields, 'webhook delivery given up')
    else logger.warn({ ...fields, retryInMs: delayMs }, 'webhook delivery failed, retrying')
  }
}
