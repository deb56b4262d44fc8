import type { Clock } from '../../domain/clock.ts'
import { KEY_STATES, type Metrics } from '../../observability/metrics.ts'
import { type ControlLogger, causeOf } from '../control-logger.ts'
import type { Timers } from '../timers.ts'
import type { KeyRepository } from './key-repository.ts'

/** Counting reads every row: often enough for a graph, too seldom to be felt. */
const PERIOD_MS = 15_000
/** A key that works for less than this is one that somebody should replace. */
export const EXPIRING_MS = 7 * 86_400_000

/** Keeps the count of keys by state, so that whoever scrapes waits for no database. @returns how to stop */
export function startKeyCensus(parts: {
  readonly repository: KeyRepository
  readonly metrics: Metrics
  readonly clock: Clock
  readonly timers: Timers
  readonly logger: ControlLogger
}): () => void {
  const { repository, metrics, clock, timers, logger } = parts
  let stopped = false
  const count = async () => {
    const nowMs = clock.wallMs()
    const counts = await repository.countByState(nowMs, nowMs + EXPIRING_MS)
    if (stopped) return
    for (const state of KEY_STATES) metrics.keys.set({ state }, counts[state])
  }
  const run = () => {
    count().catch((error: unknown) => logger.warn({ cause: causeOf(error) }, 'keys could not be counted'))
  }
  run()
  const cancel = timers.every(PERIOD_MS, run)
  return () => {
    stopped = true
    cancel()
  }
}
