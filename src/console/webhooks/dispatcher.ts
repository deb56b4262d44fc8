import type { Clock, Timers } from '../../domain/clock.ts'
import { type ControlLogger, describeError } from '../../observability/control-logger.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import type { Database } from '../platform/database/database.ts'
import type { PageOptions } from '../platform/database/query-parts.ts'
import type { Channel, SendResult } from './channels.ts'
import { createTestEvent } from './events.ts'
import {
  type AttemptOutcome,
  type Claim,
  type ClaimedReceiver,
  claimDue,
  type DueDelivery,
  insertEvents,
  listDeliveries,
  makeDue,
  purgeDeliveries,
  type ReceiverKind,
  recordAttempt,
  releaseReceiver,
  type WebhookEvent,
} from './rows.ts'

const POLL_INTERVAL_MS = 1_000
/** A claim outlasts an attempt by this; then another console takes over what one that died had claimed. */
const CLAIM_MARGIN_MS = 10_000

interface DispatcherParts {
  readonly deliveries: Deliveries
  /** One for each kind of receiver that the settings allow. */
  readonly channels: readonly Channel[]
  readonly clock: Clock
  readonly timers: Timers
  readonly metrics: Metrics
  readonly logger: ControlLogger
  /** From 0 to 1, for jitter. */
  readonly random: () => number
}

/**
 * Sends due events until each is delivered or given up. Each channel has lanes of its own, a lane serves one receiver with a few
 * events at a time, the one that waited longest first: a receiver that is slow or down holds up no other. Delivery is at least
 * once: a console that dies between sending and recording sends the same event id again.
 */
export class Dispatcher {
  readonly #parts: DispatcherParts
  readonly #lanes: ReadonlyMap<Channel, Set<Promise<void>>>
  #filling: Promise<void> | null = null
  #cancel = () => {}
  #stopped = false

  constructor(parts: DispatcherParts) {
    this.#parts = parts
    this.#lanes = new Map(parts.channels.map(channel => [channel, new Set()]))
    for (const { kind: receiver } of parts.channels) {
      for (const outcome of ['delivered', 'failed', 'given_up'] as const) {
        parts.metrics.webhookDeliveries.inc({ receiver, outcome }, 0)
      }
    }
  }

  start(): void {
    this.#cancel = this.#parts.timers.every(POLL_INTERVAL_MS, () => void this.#fill())
  }

  /** Sends all that is due, and resolves when nothing is. It never rejects. */
  async deliver(): Promise<void> {
    for (;;) {
      await this.#fill()
      const open = this.#openLanes()
      if (open.length === 0) return
      await Promise.all(open)
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancel()
    await this.#filling
    await Promise.all(this.#openLanes())
    for (const channel of this.#parts.channels) await channel.stop()
  }

  #openLanes(): Promise<void>[] {
    return [...this.#lanes.values()].flatMap(lanes => [...lanes])
  }

  #fill(): Promise<void> {
    this.#filling ??= this.#fillLanes()
      .catch((error: unknown) => {
        this.#parts.logger.warn({ cause: describeError(error) }, 'webhook delivery queue not read, retrying')
      })
      .finally(() => {
        this.#filling = null
      })
    return this.#filling
  }

  async #fillLanes(): Promise<void> {
    for (const [channel, lanes] of this.#lanes) {
      const receivers = channel.lanes - lanes.size
      if (this.#stopped || receivers === 0) continue
      const { kind, eventsOfEach, timeoutMs } = channel
      const forMs = timeoutMs + CLAIM_MARGIN_MS
      for (const claimed of await this.#parts.deliveries.claim({ kind, receivers, eventsOfEach, forMs })) {
        const lane: Promise<void> = this.#serve(channel, claimed).finally(() => {
          lanes.delete(lane)
          // It may have more events, and others may wait for a lane.
          if (claimed.due.length > 0) void this.#fill()
        })
        lanes.add(lane)
      }
    }
  }

  /** It never rejects. */
  async #serve(channel: Channel, claimed: ClaimedReceiver): Promise<void> {
    const { deliveries, clock, logger } = this.#parts
    const { receiver } = claimed
    try {
      const attempts = await Promise.all(claimed.due.map(delivery => this.#attempt(channel, delivery)))
      // None where another transaction holds them just now.
      const failed = attempts.length === 0 ? 0 : 1
      const failures = attempts.some(Boolean) ? 0 : claimed.failures + failed
      const restMs = channel.restMs(failures)
      // Without a rest there is no time either, which would lie ahead once the clock is set back.
      await deliveries.release(receiver, {
        failures,
        pausedUntilMs: restMs === 0 ? 0 : clock.wallMs() + restMs,
      })
    } catch (error) {
      const fields = { ...aboutReceiver(channel.kind, receiver), cause: describeError(error) }
      logger.warn(fields, 'webhook delivery not recorded, retrying')
    }
  }

  /** @returns whether it was delivered */
  async #attempt(channel: Channel, delivery: DueDelivery): Promise<boolean> {
    const { deliveries, clock, metrics, random } = this.#parts
    const { kind: receiver } = channel
    const result = await channel.send(delivery, clock.wallMs())
    if (result.ok) {
      await deliveries.recordAttempt(delivery, { kind: 'delivered', status: result.status })
      metrics.webhookDeliveries.inc({ receiver, outcome: 'delivered' })
      return true
    }
    const { status, reason } = result
    const delayMs = retryDelayMs(delivery.attempts + 1, random())
    const dueAtMs = delayMs === null ? null : clock.wallMs() + delayMs
    await deliveries.recordAttempt(delivery, { kind: 'failed', status, reason, dueAtMs })
    metrics.webhookDeliveries.inc({ receiver, outcome: delayMs === null ? 'given_up' : 'failed' })
    this.#logFailure(receiver, delivery, result, delayMs)
    return false
  }

  #logFailure(
    kind: ReceiverKind,
    { receiver, id: eventId, attempts: before }: DueDelivery,
    { status, reason, cause }: SendResult & { ok: false },
    delayMs: number | null,
  ): void {
    const { logger } = this.#parts
    const attempts = before + 1
    if (kind === 'workspace') {
      // The receiver belongs to the workspace: no warning for the operator.
      const fields = { ...aboutReceiver(kind, receiver), eventId, status, cause, attempts }
      logger.info(fields, 'workspace webhook delivery failed')
      return
    }
    const fields = { eventId, status, reason, ...(cause === null ? {} : { cause }), attempts }
    if (delayMs === null) logger.error(fields, 'webhook delivery given up')
    else logger.warn({ ...fields, retryInMs: delayMs }, 'webhook delivery failed, retrying')
  }
}

function aboutReceiver(kind: ReceiverKind, receiver: string): { readonly workspaceId?: string } {
  return kind === 'workspace' ? { workspaceId: receiver } : {}
}

const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS

/** Nine attempts in about 28 hours, so that a receiver that is down overnight misses no event. */
const WAITS_MS = [
  5 * SECOND_MS,
  MINUTE_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  10 * HOUR_MS,
] as const

/**
 * @param attempts failed so far, from 1
 * @param random from 0 to 1; adds up to 10 %, so that simultaneous failures do not retry together
 * @returns ms until the next attempt; null after the last
 */
export function retryDelayMs(attempts: number, random: number): number | null {
  const waitMs = WAITS_MS[attempts - 1]
  return waitMs === undefined ? null : Math.round(waitMs * (1 + random / 10))
}

/** The queue of webhook events for all receivers. Events of a change are inserted in the transaction of the change. */
export type Deliveries = ReturnType<typeof createDeliveries>

/** Deliveries to receivers of one kind, and what people ask for. */
export type DeliveryLog = ReturnType<Deliveries['log']>

export function createDeliveries(database: Database, clock: Clock, newEventId: (nowMs: number) => string) {
  const { reader, dialect, changes } = database
  const insert = (events: readonly WebhookEvent[]) => changes.run(tx => insertEvents(tx, events))
  return {
    insert,
    /** Receivers with due events, the one that waited longest first; other consoles leave them alone for `forMs`. */
    claim({
      forMs,
      ...claim
    }: Pick<Claim, 'kind' | 'receivers' | 'eventsOfEach'> & { readonly forMs: number }) {
      const nowMs = clock.wallMs()
      return changes.run(tx => claimDue(tx, { ...claim, nowMs, claimedUntilMs: nowMs + forMs, dialect }))
    },
    recordAttempt: (delivery: DueDelivery, outcome: AttemptOutcome) =>
      changes.run(tx => recordAttempt(tx, delivery, outcome, clock.wallMs())),
    /** Ends a claim. */
    release: (receiver: string, state: { readonly failures: number; readonly pausedUntilMs: number }) =>
      changes.run(tx => releaseReceiver(tx, receiver, state, clock.wallMs())),
    /** What was sent to receivers of one kind. */
    log: (kind: ReceiverKind) => ({
      /** Newest first. */
      list: (page: PageOptions) => listDeliveries(reader, { ...page, kind }),
      /** Sends an event of type `test`; at most one a minute for each workspace. @returns whether it is the one of this minute */
      async sendTest(workspaceId: string): Promise<boolean> {
        const atMs = clock.wallMs()
        const event = createTestEvent(workspaceId, { id: newEventId(atMs), atMs }, kind)
        return (await insert([event])) > 0
      },
      /** Sends an event again that was delivered or given up; any other stays as it is. */
      sendAgain: (event: { readonly workspaceId: string; readonly id: string }) =>
        changes.run(tx => makeDue(tx, { ...event, kind }, clock.wallMs())),
    }),
    /** Deletes what was delivered or given up more than 30 days ago. */
    async purge(): Promise<void> {
      while (await changes.run(tx => purgeDeliveries(tx, clock.wallMs()))) {}
    },
  }
}
