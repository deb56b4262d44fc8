import type { Clock } from '../../domain/clock.ts'
import { type ControlLogger, causeOf } from '../../observability/control-logger.ts'
import type { Metrics } from '../../observability/metrics.ts'
import type { Timers } from '../timers.ts'
import type { Notices } from './deliveries.ts'
import type { DueNotice } from './delivery-rows.ts'
import { waitAfter } from './retry.ts'
import type { Sender, SendResult } from './send.ts'

const LOOK_EVERY_MS = 1_000
const MAX_AT_ONCE = 16
/** Longer than an attempt can take: another console takes over what this one dies over. */
const CLAIM_MARGIN_MS = 10_000

export interface CourierParts {
  readonly notices: Notices
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
 * Brings notices to the webhook, each until it was taken or was given up. A notice may come twice, where a console dies
 * between sending it and noting that; its id tells.
 */
export class Courier {
  readonly #parts: CourierParts
  #round: Promise<void> | null = null
  #cancel = () => {}
  #stopped = false

  constructor(parts: CourierParts) {
    this.#parts = parts
    for (const outcome of ['delivered', 'failed', 'given_up'] as const) {
      parts.metrics.webhookDeliveries.inc({ outcome }, 0)
    }
  }

  start(): void {
    this.#cancel = this.#parts.timers.every(LOOK_EVERY_MS, () => void this.deliver())
  }

  /** Sends all that is due. One round at a time; it never rejects. */
  deliver(): Promise<void> {
    this.#round ??= this.#deliverAll()
      .catch((error: unknown) => {
        this.#parts.logger.warn(
          { cause: causeOf(error) },
          'webhook deliveries could not be noted; trying again',
        )
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
    const { notices, timeoutMs } = this.#parts
    let claimed: DueNotice[]
    do {
      claimed = await notices.claim(MAX_AT_ONCE, timeoutMs + CLAIM_MARGIN_MS)
      await Promise.all(claimed.map(notice => this.#attempt(notice)))
    } while (claimed.length === MAX_AT_ONCE && !this.#stopped)
  }

  async #attempt(notice: DueNotice): Promise<void> {
    const { notices, sender, clock, metrics } = this.#parts
    const result = await sender.send(notice, clock.wallMs())
    if (result.ok) {
      await notices.noteAttempt(notice, { kind: 'delivered', status: result.status })
      metrics.webhookDeliveries.inc({ outcome: 'delivered' })
    } else await this.#noteFailure(notice, result)
  }

  async #noteFailure(notice: DueNotice, { status, reason }: SendResult & { ok: false }): Promise<void> {
    const { notices, clock, metrics, logger, random } = this.#parts
    const waitMs = waitAfter(notice.attempts + 1, random())
    const dueAtMs = waitMs === null ? null : clock.wallMs() + waitMs
    await notices.noteAttempt(notice, { kind: 'failed', status, reason, dueAtMs })
    metrics.webhookDeliveries.inc({ outcome: waitMs === null ? 'given_up' : 'failed' })
    const facts = { notice: notice.id, status, reason, attempts: notice.attempts + 1 }
    if (waitMs === null) logger.error(facts, 'a webhook delivery was given up')
    else logger.warn({ ...facts, nextInMs: waitMs }, 'a webhook delivery failed; trying again')
  }
}
