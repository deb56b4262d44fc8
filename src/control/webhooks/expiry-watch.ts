import type { Clock } from '../../domain/clock.ts'
import { type ControlLogger, causeOf } from '../../observability/control-logger.ts'
import type { Timers } from '../timers.ts'
import type { Notices } from './deliveries.ts'
import { noticeOfExpiry, WARNING_DAYS } from './webhook-event.ts'

const LOOK_EVERY_MS = 60_000
const DAY_MS = 86_400_000

export interface ExpiryWatchParts {
  readonly notices: Notices
  readonly clock: Clock
  readonly timers: Timers
  readonly logger: ControlLogger
  readonly newNoticeId: (nowMs: number) => string
}

/**
 * Spans in which the expiry of a key calls for a notice, each with the days it tells. They don't overlap: a console that
 * was away warns once, with what is true by then. A key that expired more than a day ago is news to nobody.
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

/** Notes what is to be told of keys that expire. Several consoles note the same once. */
export async function noteExpiries({ notices, clock, newNoticeId }: ExpiryWatchParts): Promise<void> {
  const nowMs = clock.wallMs()
  for (const span of expirySpans(nowMs)) {
    const keys = await notices.keysToWarnOf(span)
    await notices.note(
      keys.map(key => noticeOfExpiry(key, { id: newNoticeId(nowMs), days: span.days, nowMs })),
    )
  }
}

/** @returns how to stop */
export function startExpiryWatch(parts: ExpiryWatchParts): () => void {
  let running = false
  const look = () => {
    if (running) return
    running = true
    void noteExpiries(parts)
      .catch((error: unknown) =>
        parts.logger.warn(
          { cause: causeOf(error) },
          'keys about to expire could not be listed; trying again',
        ),
      )
      .finally(() => {
        running = false
      })
  }
  look()
  return parts.timers.every(LOOK_EVERY_MS, look)
}
