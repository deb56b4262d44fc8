import type { Clock } from '../../../domain/clock.ts'
import { type ControlLogger, causeOf } from '../../../observability/control-logger.ts'
import type { Timers } from '../../timers.ts'
import type { KeyRepository } from '../database/key-repository.ts'
import type { Announcer } from './announcer.ts'
import type { MessageEncoder } from './message-encoder.ts'
import type { Outbox } from './outbox.ts'

/** A gateway is deaf after a second without a beat: two may be lost, or held back for a moment. */
export const BEAT_PERIOD_MS = 300
/** How long a committed change may be on its way before the beats stop. */
const MAX_PENDING_MS = 250

export interface BeatParts {
  readonly repository: KeyRepository
  readonly announcer: Announcer
  readonly outbox: Outbox
  readonly clock: Clock
  readonly timers: Timers
  readonly messages: MessageEncoder
  readonly logger: ControlLogger
}

/**
 * A beat says: every change that was committed has been announced. It is what gateways rest their trust on, so none is
 * sent while that is not so, whatever the reason; they go deaf then, and ask the key service.
 * @returns how to stop
 */
export function startBeats(parts: BeatParts): () => void {
  let beating = false
  let wasSilent = false
  let stopped = false
  const beat = async () => {
    // One at a time: those that pile up before a stalled Redis would all be heard late, when they are true no more.
    if (beating) return
    beating = true
    let cause: unknown
    const silence = await beatOnce(parts).catch((error: unknown) => {
      cause = error
      return 'failed' as const
    })
    beating = false
    if (stopped) return
    if ((silence !== null) !== wasSilent) logSilence(parts.logger, silence, cause)
    wasSilent = silence !== null
  }
  const cancel = parts.timers.every(BEAT_PERIOD_MS, () => void beat())
  return () => {
    stopped = true
    cancel()
  }
}

type Silence = 'not_connected' | 'change_undelivered' | 'not_caught_up' | 'failed'

async function beatOnce({
  announcer,
  repository,
  outbox,
  clock,
  messages,
}: BeatParts): Promise<Silence | null> {
  if (announcer.state() === 'off') return null
  if (announcer.state() === 'down') return 'not_connected'
  const pending = await repository.pendingSpan()
  // Another console that shares the database may have noted the change and died.
  if (pending !== null) outbox.nudge()
  if (!isAllAnnounced(pending, clock.wallMs())) return 'change_undelivered'
  // The last thing asked: the connection may have been made again while the database was.
  if (!outbox.hasCaughtUp()) {
    outbox.nudge()
    return 'not_caught_up'
  }
  await announcer.publish(messages.heartbeat())
  return null
}

/** A change from the future tells that a clock has stepped: its age is unknown then, which is no reason to trust it. */
export function isAllAnnounced(
  pending: { oldestMs: number; newestMs: number } | null,
  nowMs: number,
): boolean {
  if (pending === null) return true
  return nowMs - pending.oldestMs <= MAX_PENDING_MS && pending.newestMs - nowMs <= MAX_PENDING_MS
}

function logSilence(logger: ControlLogger, silence: Silence | null, cause: unknown): void {
  if (silence === null) logger.info('gateways are told again that every change was announced')
  else {
    const why = cause === undefined ? {} : { cause: causeOf(cause) }
    logger.warn(
      { reason: silence, ...why },
      'no beats: gateways ask the key service for each key from now on',
    )
  }
}
