import type { Clock } from '../../../domain/clock.ts'
import { type ControlLogger, causeOf } from '../../../observability/control-logger.ts'
import type { Metrics } from '../../../observability/metrics/metrics.ts'
import { retryDelayMs } from '../../platform/jobs/retry-delay.ts'
import type { Timers } from '../../platform/jobs/timers.ts'
import type { DueDelivery } from '../webhook-event.ts'
import type { WorkspaceSender } from './workspace-sender.ts'
import type { ClaimedWebhook } from './workspace-webhook-rows.ts'
import type { WorkspaceWebhookStore } from './workspace-webhook-store.ts'

const POLL_INTERVAL_MS = 1_000
/** Workspaces served at a time, each with a few events. */
const LANES = 32
const EVENTS_OF_EACH = 4
/** A claim outlasts an attempt by this; then another console takes over what one that died had claimed. */
const CLAIM_MARGIN_MS = 10_000
const FIRST_PAUSE_MS = 5_000
const MAX_PAUSE_MS = 60_000

export interface WorkspaceDispatcherParts {
  readonly store: WorkspaceWebhookStore
  readonly sender: WorkspaceSender
  readonly timeoutMs: number
  readonly clock: Clock
  readonly timers: Timers
  readonly metrics: Metrics
  readonly logger: ControlLogger
  /** From 0 to 1, for jitter. */
  readonly random: () => number
}

/** How long a webhook rests after failures in a row, so that those that work get the lanes. */
export function pauseMs(failures: number): number {
  return failures === 0 ? 0 : Math.min(FIRST_PAUSE_MS * 2 ** Math.min(failures - 1, 10), MAX_PAUSE_MS)
}

/**
 * Sends events to the webhooks of workspaces, apart from the operator's. The one that waited longest comes first, and a receiver
 * that fails rests for a while: one that is slow or down holds up no other.
 */
export class WorkspaceDispatcher {
  readonly #parts: WorkspaceDispatcherParts
  readonly #lanes = new Set<Promise<void>>()
  #filling: Promise<void> | null = null
  #cancel = () => {}
  #stopped = false

  constructor(parts: WorkspaceDispatcherParts) {
    this.#parts = parts
    for (const outcome of ['delivered', 'failed', 'given_up'] as const) {
      parts.metrics.webhookDeliveries.inc({ receiver: 'workspace', outcome }, 0)
    }
  }

  start(): void {
    this.#cancel = this.#parts.timers.every(POLL_INTERVAL_MS, () => void this.#fill())
  }

  /** Sends all that is due, and resolves when nothing is. It never rejects. */
  async deliver(): Promise<void> {
    for (;;) {
      await this.#fill()
      if (this.#lanes.size === 0) return
      await Promise.all(this.#lanes)
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancel()
    await this.#filling
    await Promise.all(this.#lanes)
  }

  #fill(): Promise<void> {
    this.#filling ??= this.#claim()
      .catch((error: unknown) => {
        this.#parts.logger.warn({ cause: causeOf(error) }, 'workspace webhooks not read, retrying')
      })
      .finally(() => {
        this.#filling = null
      })
    return this.#filling
  }

  async #claim(): Promise<void> {
    const webhooks = LANES - this.#lanes.size
    if (this.#stopped || webhooks === 0) return
    const { store, timeoutMs } = this.#parts
    const forMs = timeoutMs + CLAIM_MARGIN_MS
    for (const webhook of await store.claim({ webhooks, eventsOfEach: EVENTS_OF_EACH, forMs })) {
      const lane: Promise<void> = this.#serve(webhook).finally(() => {
        this.#lanes.delete(lane)
        // It may have more events, and others may wait for a lane.
        void this.#fill()
      })
      this.#lanes.add(lane)
    }
  }

  /** It never rejects. */
  async #serve(webhook: ClaimedWebhook): Promise<void> {
    const { store, clock, logger } = this.#parts
    const { workspaceId } = webhook
    try {
      const attempts = await Promise.all(webhook.due.map(delivery => this.#attempt(webhook, delivery)))
      const failures = attempts.some(Boolean) ? 0 : webhook.failures + 1
      await store.release(workspaceId, { failures, pausedUntilMs: clock.wallMs() + pauseMs(failures) })
    } catch (error) {
      logger.warn({ workspaceId, cause: causeOf(error) }, 'webhook delivery not recorded, retrying')
    }
  }

  /** @returns whether it was delivered */
  async #attempt({ workspaceId, url, secret }: ClaimedWebhook, delivery: DueDelivery): Promise<boolean> {
    const { store, sender, clock, metrics, logger, random } = this.#parts
    const result = await sender.send({ url, secret }, delivery, clock.wallMs())
    if (result.ok) {
      await store.deliveries.recordAttempt(delivery, { kind: 'delivered', status: result.status })
      metrics.webhookDeliveries.inc({ receiver: 'workspace', outcome: 'delivered' })
      return true
    }
    const { status, reason, cause } = result
    const attempts = delivery.attempts + 1
    const delayMs = retryDelayMs(attempts, random())
    const dueAtMs = delayMs === null ? null : clock.wallMs() + delayMs
    await store.deliveries.recordAttempt(delivery, { kind: 'failed', status, reason, dueAtMs })
    metrics.webhookDeliveries.inc({
      receiver: 'workspace',
      outcome: delayMs === null ? 'given_up' : 'failed',
    })
    // The receiver belongs to the workspace: no warning for the operator.
    logger.info(
      { workspaceId, eventId: delivery.id, status, cause, attempts },
      'workspace webhook delivery failed',
    )
    return false
  }
}
