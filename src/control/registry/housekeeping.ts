import type { Metrics } from '../../observability/metrics.ts'
import { type ControlLogger, causeOf } from '../control-logger.ts'
import type { Timers } from '../timers.ts'
import type { KeyRepository } from './key-repository.ts'

const COUNT_PERIOD_MS = 5000
const PURGE_PERIOD_MS = 60_000

export interface HousekeepingParts {
  readonly repository: KeyRepository
  readonly metrics: Metrics
  readonly timers: Timers
  readonly logger: ControlLogger
}

/** Counts what is still to be announced, and deletes answers whose day is over. @returns how to stop */
export function startHousekeeping({ repository, metrics, timers, logger }: HousekeepingParts): () => void {
  const count = async () => metrics.outboxPending.set(await repository.countPending())
  const cancels = [
    timers.every(COUNT_PERIOD_MS, once(count, logger)),
    timers.every(
      PURGE_PERIOD_MS,
      once(() => repository.purge(), logger),
    ),
  ]
  return () => {
    for (const cancel of cancels) cancel()
  }
}

/** A run that takes longer than its period is not joined by a second one. */
function once(work: () => Promise<void>, logger: ControlLogger): () => void {
  let running = false
  return () => {
    if (running) return
    running = true
    void work()
      .catch((error: unknown) => logger.warn({ cause: causeOf(error) }, 'housekeeping failed; trying again'))
      .finally(() => {
        running = false
      })
  }
}
