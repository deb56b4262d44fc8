import type { Clock } from '../../../domain/clock.ts'
import { type ControlLogger, causeOf } from '../../../observability/control-logger.ts'
import { KEY_STATES, type Metrics } from '../../../observability/metrics.ts'
import type { Timers } from '../../timers.ts'
import type { KeyRepository } from './key-repository.ts'

const COUNT_PERIOD_MS = 5000
/** It reads every row: often enough for a graph, too seldom to be felt. */
const CENSUS_PERIOD_MS = 15_000
/** A key that works for less than a week is one that somebody should replace now, in a month one to plan for. */
const WEEK_MS = 7 * 86_400_000
const MONTH_MS = 30 * 86_400_000
const PURGE_PERIOD_MS = 60_000

export interface HousekeepingParts {
  readonly repository: KeyRepository
  /** Each deletes what is kept for long enough. */
  readonly purges: readonly (() => Promise<void>)[]
  readonly metrics: Metrics
  readonly clock: Clock
  readonly timers: Timers
  readonly logger: ControlLogger
}

/**
 * Counts keys and what is still to be announced, so that whoever scrapes waits for no database, and deletes what is
 * over.
 * @returns how to stop
 */
export function startHousekeeping(parts: HousekeepingParts): () => void {
  const { repository, purges, metrics, clock, timers, logger } = parts
  const count = async () => metrics.outboxPending.set(await repository.countPending())
  const takeCensus = once(async () => {
    const nowMs = clock.wallMs()
    const counts = await repository.countByState({
      nowMs,
      weekMs: nowMs + WEEK_MS,
      monthMs: nowMs + MONTH_MS,
    })
    for (const state of KEY_STATES) metrics.keys.set({ state }, counts[state])
  }, logger)
  takeCensus()
  const cancels = [
    timers.every(COUNT_PERIOD_MS, once(count, logger)),
    timers.every(CENSUS_PERIOD_MS, takeCensus),
    ...purges.map(purge => timers.every(PURGE_PERIOD_MS, once(purge, logger))),
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
