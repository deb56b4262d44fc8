import type { Clock } from '../../domain/clock.ts'
import type { ControlLogger } from '../../observability/control-logger.ts'
import { KEY_STATE_LABELS, type Metrics } from '../../observability/metrics/metrics.ts'
import { logUpkeepFailed, type Timers } from '../platform/jobs/timers.ts'
import type { KeyRepository } from './key-repository.ts'

/** Reads every row: often enough for a graph, rarely enough for the load. */
const COUNT_PERIOD_MS = 15_000
/** With millions of keys a count takes seconds: it rests for so many times as long. */
const COUNT_REST = 50
const WEEK_MS = 7 * 86_400_000
const MONTH_MS = 30 * 86_400_000

export interface CountParts {
  readonly repository: Pick<KeyRepository, 'countByState'>
  readonly metrics: Pick<Metrics, 'keys'>
  readonly clock: Clock
  readonly timers: Timers
  readonly logger: ControlLogger
}

/**
 * Counts keys by state, so that a scrape waits for no database: now, and again after a rest that begins when a count has ended.
 * @returns ends it
 */
export function startCountingKeys(parts: CountParts): () => void {
  const { clock, timers, logger } = parts
  let isStopped = false
  let cancelNext = () => {}
  const count = async () => {
    const startedMs = clock.monotonicMs()
    await countStates(parts).catch((error: unknown) => logUpkeepFailed(logger, error))
    if (isStopped) return
    const tookMs = clock.monotonicMs() - startedMs
    cancelNext = timers.after(Math.max(COUNT_PERIOD_MS, tookMs * COUNT_REST), () => void count())
  }
  void count()
  return () => {
    isStopped = true
    cancelNext()
  }
}

async function countStates({ repository, metrics, clock }: CountParts): Promise<void> {
  const nowMs = clock.wallMs()
  const bounds = { nowMs, weekMs: nowMs + WEEK_MS, monthMs: nowMs + MONTH_MS }
  const counts = await repository.countByState(bounds)
  for (const state of KEY_STATE_LABELS) metrics.keys.set({ state }, counts[state])
}
