import type { Clock, Timers } from '../../domain/clock.ts'
import { REVOCATION_TIMING } from '../../domain/revocation-timing.ts'
import { type ControlLogger, describeError } from '../../observability/control-logger.ts'
import type { Announcer, MessageEncoder } from './announcer.ts'
import { OtherMark } from './mark-rows.ts'
import type { Outbox } from './outbox.ts'
import type { PendingChanges } from './outbox-rows.ts'
import type { Verified } from './redis-mark.ts'

const { heartbeatPeriodMs, maxPendingMs } = REVOCATION_TIMING

interface HeartbeatParts {
  readonly repository: Pick<PendingChanges, 'pendingSpan'>
  readonly announcer: Announcer
  readonly outbox: Outbox
  readonly clock: Clock
  readonly timers: Timers
  readonly messages: MessageEncoder
  readonly logger: ControlLogger
  /**
   * The time to a region that may be far, and back. A change is announced in one, or in two where a cluster holds the records or
   * an entry must be verified, so that it may be pending for two of them longer, and the bound of one that cannot be announced
   * grows by as much.
   */
  readonly roundTrip?: RoundTrip | null
}

const ROUND_TRIPS_OF_A_CHANGE = 2
/** It is confirmed by the Sentinels first. */
const ROUND_TRIPS_OF_A_HEARTBEAT = 2

/**
 * A heartbeat states that every committed change was announced. Gateways trust their caches on its strength, so none is
 * sent while that is not certain; gateways then treat themselves as disconnected and ask the key service.
 * @returns stops the heartbeats
 */
export function startHeartbeats(parts: HeartbeatParts): () => void {
  let publishing = 0
  let wasPaused = false
  let stopped = false
  const publish = async () => {
    // Only as many as are on the way: heartbeats queued before a stalled Redis would arrive when they are no longer true.
    if (publishing > (ROUND_TRIPS_OF_A_HEARTBEAT * (parts.roundTrip?.ms ?? 0)) / heartbeatPeriodMs) return
    publishing++
    let cause: unknown
    const { verified } = parts.outbox
    const reason = await publishHeartbeat(parts, verified).catch((error: unknown) => {
      if (error instanceof OtherMark) {
        parts.outbox.doubt(verified)
        return 'not_caught_up' as const
      }
      cause = error
      // Redis may answer again on the same connection, while changes of earlier keys are not all in the outbox.
      if (!parts.outbox.hasCaughtUp()) parts.outbox.requestDrainUnlessWaiting()
      return 'failed' as const
    })
    publishing--
    if (stopped) return
    if ((reason !== null) !== wasPaused) logPause(parts.logger, reason, cause)
    wasPaused = reason !== null
  }
  const cancel = parts.timers.every(heartbeatPeriodMs, () => void publish())
  return () => {
    stopped = true
    cancel()
  }
}

type PauseReason =
  | 'not_connected'
  | 'redis_failed'
  | 'not_confirmed'
  | 'change_undelivered'
  | 'not_caught_up'
  | 'failed'

async function publishHeartbeat(
  { announcer, repository, outbox, clock, messages, roundTrip = null }: HeartbeatParts,
  verified: Verified | null,
): Promise<PauseReason | null> {
  if (announcer.state() === 'off') return null
  if (announcer.state() === 'down') return 'not_connected'
  if (announcer.state() === 'failed') return 'redis_failed'
  const allowedMs = maxPendingMs + ROUND_TRIPS_OF_A_CHANGE * (roundTrip?.ms ?? 0)
  if (verified === null) {
    outbox.requestDrainUnlessWaiting()
    return 'not_caught_up'
  }
  // Another console may have announced a change to a server that replaced this one, and deleted it from the outbox.
  const askedAtMs = clock.monotonicMs()
  if (!(await announcer.confirm()) || clock.monotonicMs() - askedAtMs > allowedMs) return 'not_confirmed'
  // Stamped before the query: where the database is slow, an earlier state must not count as the present one.
  const heartbeat = messages.heartbeat()
  const pending = await repository.pendingSpan(verified.mark)
  const isLate = !isAllAnnounced(pending, clock.wallMs(), allowedMs)
  if (pending !== null) outbox.requestDrainOfPending({ isLate })
  if (isLate) return 'change_undelivered'
  // Checked last: Redis may have reconnected during the query, and not be known yet.
  if (announcer.state() !== 'ready') return 'not_connected'
  if (outbox.verified !== verified || !outbox.hasCaughtUp()) {
    outbox.requestDrainUnlessWaiting()
    return 'not_caught_up'
  }
  const sentAtMs = clock.monotonicMs()
  await announcer.publish(heartbeat)
  roundTrip?.observe(clock.monotonicMs() - sentAtMs)
  return null
}

/** A change from the future means that a clock has stepped: its age is unknown, so it counts as late. */
export function isAllAnnounced(
  pending: { oldestMs: number; newestMs: number } | null,
  nowMs: number,
  allowedMs: number = maxPendingMs,
): boolean {
  if (pending === null) return true
  return nowMs - pending.oldestMs <= allowedMs && pending.newestMs - nowMs <= maxPendingMs
}

function logPause(logger: ControlLogger, reason: PauseReason | null, cause: unknown): void {
  if (reason === null) logger.info('heartbeats resumed')
  else {
    const why = cause === undefined ? {} : { cause: describeError(cause) }
    logger.warn({ reason, ...why }, 'heartbeats paused, gateways verify each key at the key service')
  }
}

/** Heartbeats of some seconds: a few slow ones do not make a region look far. */
const OBSERVED = 16
/** Beyond this a region counts as slow, not as far. */
const MAX_ROUND_TRIP_MS = 600

/** The time to a region and back: the fastest of its last heartbeats. */
export class RoundTrip {
  readonly #observedMs: number[] = []

  observe(ms: number): void {
    this.#observedMs.push(ms)
    if (this.#observedMs.length > OBSERVED) this.#observedMs.shift()
  }

  get ms(): number {
    return this.#observedMs.length === 0 ? 0 : Math.min(...this.#observedMs, MAX_ROUND_TRIP_MS)
  }
}
