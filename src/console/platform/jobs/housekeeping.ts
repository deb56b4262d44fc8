import type { Clock } from '../../../domain/clock.ts'
import { type ControlLogger, causeOf } from '../../../observability/control-logger.ts'
import { KEY_STATE_LABELS, type Metrics } from '../../../observability/metrics/metrics.ts'
import type { KeyRepository } from '../../keys/rows/key-repository.ts'
import type { ChainHead } from '../audit/chain.ts'
import type { Timers } from './timers.ts'

const COUNT_PERIOD_MS = 5000
/** Reads every row: often enough for a graph, rarely enough for the load. */
const CENSUS_PERIOD_MS = 15_000
/** With millions of keys a census takes seconds: it rests for so many times as long. */
const CENSUS_REST = 50
/** For what a console that died has left. */
const CHAIN_PERIOD_MS = 5000
const SIGN_AUDIT_PERIOD_MS = 60_000
const NOTE_HEAD_PERIOD_MS = 3_600_000
const WEEK_MS = 7 * 86_400_000
const MONTH_MS = 30 * 86_400_000
const PURGE_PERIOD_MS = 60_000

const FAILED = 'housekeeping failed, retrying'

export interface HousekeepingParts {
  readonly repository: KeyRepository
  /** Names of the regions that this console announces to. */
  readonly regions: readonly string[]
  /** Each deletes rows past their retention. */
  readonly purges: readonly (() => Promise<void>)[]
  readonly metrics: Metrics
  readonly clock: Clock
  readonly timers: Timers
  readonly logger: ControlLogger
}

/**
 * Counts keys and pending changes, so that a scrape waits for no database, deletes rows past their retention, and adds
 * audit entries to the chain that another console has left.
 * @returns stops it
 */
export function startHousekeeping(parts: HousekeepingParts): () => void {
  const { repository, purges, metrics, clock, timers, logger } = parts
  const count = async () => {
    let all = 0
    for (const region of parts.regions) {
      const outbox = repository.pendingIn(region)
      const pending = await outbox.countPending()
      const oldestMs = await outbox.oldestPendingMs()
      metrics.regionPending.set({ region }, pending)
      const age = oldestMs === null ? 0 : Math.max(0, clock.wallMs() - oldestMs)
      metrics.regionPendingAge.set({ region }, age / 1000)
      all += pending
    }
    metrics.outboxPending.set(all)
  }
  const chainAudit = once(() => repository.chainAudit(), logger)
  const noteHead = once(createHeadNotes(parts), logger)
  const signAuditAgain = once(() => repository.signAuditAgain(), logger)
  chainAudit()
  noteHead()
  const cancels = [
    startCensus(parts),
    timers.every(COUNT_PERIOD_MS, once(count, logger)),
    timers.every(CHAIN_PERIOD_MS, chainAudit),
    timers.every(SIGN_AUDIT_PERIOD_MS, signAuditAgain),
    timers.every(NOTE_HEAD_PERIOD_MS, noteHead),
    ...purges.map(purge => timers.every(PURGE_PERIOD_MS, once(purge, logger))),
  ]
  return () => {
    for (const cancel of cancels) cancel()
  }
}

/** Counts keys by state now, and again after a rest that begins when a census has ended. */
function startCensus(parts: HousekeepingParts): () => void {
  const { clock, timers, logger } = parts
  let isStopped = false
  let cancelNext = () => {}
  const takeCensus = async () => {
    const startedMs = clock.monotonicMs()
    await countStates(parts).catch((error: unknown) => logger.warn({ cause: causeOf(error) }, FAILED))
    if (isStopped) return
    const tookMs = clock.monotonicMs() - startedMs
    cancelNext = timers.after(Math.max(CENSUS_PERIOD_MS, tookMs * CENSUS_REST), () => void takeCensus())
  }
  void takeCensus()
  return () => {
    isStopped = true
    cancelNext()
  }
}

/** A head in the log, which is kept elsewhere, shows later what was cut off or written anew: `audit verify --head`. */
function createHeadNotes({ repository, metrics, logger }: HousekeepingParts): () => Promise<void> {
  let noted: ChainHead | null = null
  return async () => {
    const earlier = noted
    if (earlier !== null && !(await repository.isInAudit(earlier))) {
      metrics.auditHeadsLost.inc()
      logger.error({ ...earlier }, 'audit entries removed or changed: an earlier head is not in the chain')
    }
    noted = await repository.auditHead()
    logger.info({ sequence: noted.sequence, hash: noted.hash }, 'audit head')
  }
}

async function countStates({ repository, metrics, clock }: HousekeepingParts): Promise<void> {
  const nowMs = clock.wallMs()
  const bounds = { nowMs, weekMs: nowMs + WEEK_MS, monthMs: nowMs + MONTH_MS }
  const counts = await repository.countByState(bounds)
  for (const state of KEY_STATE_LABELS) metrics.keys.set({ state }, counts[state])
}

/** Skips a run while the previous one is still going. */
function once(work: () => Promise<void>, logger: ControlLogger): () => void {
  let isRunning = false
  return () => {
    if (isRunning) return
    isRunning = true
    void work()
      .catch((error: unknown) => logger.warn({ cause: causeOf(error) }, FAILED))
      .finally(() => {
        isRunning = false
      })
  }
}
