import type { Clock } from '../../domain/clock.ts'
import { type ControlLogger, causeOf } from '../../observability/control-logger.ts'
import type { Timers } from '../platform/jobs/timers.ts'
import { createExpiryEvent, WARNING_DAYS } from './create-events.ts'
import type { WebhookDeliveries } from './webhook-deliveries.ts'

const POLL_INTERVAL_MS = 60_000
const DAY_MS = 86_400_000

export interface ExpiryWatchParts {
  readonly deliveries: WebhookDeliveries
  readonly clock: Clock
  readonly timers: Timers
  readonly logger: ControlLogger
  readonly newEventId: (nowMs: number) => string
}

/**
 * Spans of expiry that call for an event, each with its number of days. They do not overlap: after an outage a console
 * warns once, with the nearest. Keys that expired more than a day ago get no event.
 * @param nowMs milliseconds since the epoch
 */
export function expirySpans(nowMs: number): { days: number; afterMs: number; untilMs: number }[] {
  const borders = [0, ...WARNING_DAYS]
  const warnings = WARNING_DAYS.map((days, index) => ({
    days,
    afterMs: nowMs + (borders[index] ?? 0) * DAY_MS,
    untilMs: nowMs + days * DAY_MS,
  }))
  return [{ days: 0, afterMs: nowMs - DAY_MS, untilMs: nowMs }, ...warnings]
}

/** Inserts events for keys that expire; several consoles insert each once. */
export async function recordExpiries({ deliveries, clock, newEventId }: ExpiryWatchParts): Promise<void> {
  const nowMs = clock.wallMs()
  for (const span of expirySpans(nowMs)) {
    const keys = await deliveries.findExpiringKeys(span)
    await deliveries.insert(
      keys.map(key => {
        const about = { id: newEventId(nowMs), days: span.days, nowMs }
        return createExpiryEvent(key, about, deliveries.receiver)
      }),
    )
  }
}

/** @returns stops the watch */
export function startExpiryWatch(parts: ExpiryWatchParts): () => void {
  let isRunning = false
  const run = () => {
    if (isRunning) return
    isRunning = true
    void recordExpiries(parts)
      .catch((error: unknown) =>
        parts.logger.warn({ cause: causeOf(error) }, 'expiring keys not listed, retrying'),
      )
      .finally(() => {
        isRunning = false
      })
  }
  run()
  return parts.timers.every(POLL_INTERVAL_MS, run)
}
