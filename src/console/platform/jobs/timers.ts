import type { Timers } from '../../../domain/clock.ts'
import { type ControlLogger, describeError } from '../../../observability/control-logger.ts'

const FIRST_BACKOFF_MS = 50
const MAX_BACKOFF_MS = 1000

/**
 * Exponential back-off up to a second, with jitter so that replicas do not retry in step.
 * @param failures failed attempts so far, from 1
 * @param random from 0 to 1
 */
export function backoffMs(failures: number, random: number): number {
  const ceiling = Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** Math.min(failures, 10))
  return Math.round((ceiling / 2) * (1 + random))
}

interface Upkeep {
  readonly everyMs: number
  readonly work: () => Promise<void>
  /** Whether the first run is now. */
  readonly isDueNow?: boolean
  /** What the log says of a run that failed. */
  readonly failure?: string
}

/**
 * Does work again and again; a run that takes longer is not overtaken by the next one. What fails is logged and tried again.
 * @returns ends it
 */
export function keepUp(
  { timers, logger }: { readonly timers: Timers; readonly logger: ControlLogger },
  { everyMs, work, isDueNow = false, failure }: Upkeep,
): () => void {
  let isRunning = false
  const run = () => {
    if (isRunning) return
    isRunning = true
    void work()
      .catch((error: unknown) => logUpkeepFailed(logger, error, failure))
      .finally(() => {
        isRunning = false
      })
  }
  if (isDueNow) run()
  return timers.every(everyMs, run)
}

export function logUpkeepFailed(
  logger: ControlLogger,
  error: unknown,
  failure = 'housekeeping failed, retrying',
): void {
  logger.warn({ cause: describeError(error) }, failure)
}
