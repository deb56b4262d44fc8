import { LRUCache } from 'lru-cache'
import type { Clock } from '../../../domain/clock.ts'
import type { ControlLogger } from '../../../observability/control-logger.ts'
import { asError, FailureLog } from '../../../observability/failure-log.ts'
import type { Metrics } from '../../../observability/metrics/metrics.ts'
import type { Database } from '../../platform/database/database.ts'
import { shareRuns } from '../../platform/jobs/share-runs.ts'
import type { Timers } from '../../platform/jobs/timers.ts'
import type { CheckedReport } from './check-report.ts'
import { makePartitions } from './rows.ts'
import { type CreateLimitEvents, storeReports } from './store-reports.ts'
import type { UseWriter } from './use-writer.ts'

/** Reports that arrive together are stored together. */
const GATHER_MS = 100
/** Entries of one transaction; in SQLite, changes to keys wait while they are written. */
const ENTRIES_AT_ONCE = { sqlite: 2_000, postgres: 10_000 } as const
/** Entries that may wait for a slow database, with all their reports. */
const MAX_WAITING_ENTRIES = 200_000
/** Gateways whose last stored report is remembered. */
const MAX_GATEWAYS = 20_000
const OUTCOMES = ['stored', 'repeated', 'failed', 'overloaded'] as const

export interface GatheringParts {
  readonly database: Database
  readonly uses: Pick<UseWriter, 'record'>
  readonly clock: Clock
  readonly timers: Timers
  readonly logger: ControlLogger
  readonly metrics: Pick<Metrics, 'usageReports'>
  /** Without it no webhook learns of limits. */
  readonly createLimitEvents?: CreateLimitEvents
}

/** A report, with the times at which keys were last used. */
export interface ReceivedReport extends CheckedReport {
  readonly used: ReadonlyMap<string, number>
}

interface Waiting extends PromiseWithResolvers<void> {
  readonly report: ReceivedReport
}

/** More reports wait than the database stores. The gateway repeats them. */
class TooManyReports extends Error {}

/**
 * Stores reports with as few transactions as possible, one at a time: it never takes more than one connection from changes
 * to keys. A report is acknowledged after its transaction.
 */
export class ReportGatherer {
  readonly #parts: GatheringParts
  readonly #failures: FailureLog
  /** By gateway and sequence: a report that is repeated while it waits is stored once. */
  readonly #waiting = new Map<string, Waiting>()
  /** Lets a report that was stored and not acknowledged in time be acknowledged at once when it is repeated. */
  readonly #lastStored = new LRUCache<string, number>({ max: MAX_GATEWAYS })
  readonly #storeWaiting = shareRuns(() => this.#gatherAndStore())
  #waitingEntries = 0
  #lastRun: Promise<void> = Promise.resolve()
  #hasPartitions = false

  constructor(parts: GatheringParts) {
    this.#parts = parts
    this.#failures = new FailureLog('usage storage', parts.logger, parts.clock)
    // At zero from the start, so that an alert on a rate fires on the first failure.
    for (const outcome of OUTCOMES) parts.metrics.usageReports.inc({ outcome }, 0)
  }

  /** Resolves once the report is stored, or was before. @throws TooManyReports, or the database's error */
  store(report: ReceivedReport): Promise<void> {
    if (report.sequence <= (this.#lastStored.get(report.gateway) ?? 0)) {
      this.#parts.metrics.usageReports.inc({ outcome: 'repeated' })
      return Promise.resolve()
    }
    const place = `${report.gateway} ${report.sequence}`
    const same = this.#waiting.get(place)
    if (same !== undefined) return same.promise
    if (this.#waitingEntries + countEntries(report) > MAX_WAITING_ENTRIES && this.#waiting.size > 0) {
      this.#parts.metrics.usageReports.inc({ outcome: 'overloaded' })
      return Promise.reject(new TooManyReports('Too many usage reports wait for the database'))
    }
    const waiting = { ...Promise.withResolvers<void>(), report }
    this.#waiting.set(place, waiting)
    this.#waitingEntries += countEntries(report)
    this.#lastRun = this.#storeWaiting()
    return waiting.promise
  }

  /** Waits for reports that were received. */
  stop(): Promise<void> {
    return this.#lastRun
  }

  async #gatherAndStore(): Promise<void> {
    // The run before has stored them.
    if (this.#waiting.size === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#parts.timers.after(GATHER_MS, resolve)
    await promise
    while (this.#waiting.size > 0) await this.#storeBatch(this.#takeBatch())
  }

  /** The oldest, one of each gateway, so that each is compared with the one before. */
  #takeBatch(): Waiting[] {
    const batch = new Map<string, Waiting>()
    let entries = 0
    for (const [place, waiting] of this.#waiting) {
      const { report } = waiting
      if (batch.has(report.gateway)) continue
      entries += countEntries(report)
      if (batch.size > 0 && entries > ENTRIES_AT_ONCE[this.#parts.database.dialect]) break
      batch.set(report.gateway, waiting)
      this.#waiting.delete(place)
      this.#waitingEntries -= countEntries(report)
    }
    return [...batch.values()]
  }

  async #storeBatch(batch: readonly Waiting[]): Promise<void> {
    const { metrics } = this.#parts
    try {
      const stored = await this.#storeReports(batch.map(({ report }) => report))
      metrics.usageReports.inc({ outcome: 'stored' }, stored)
      metrics.usageReports.inc({ outcome: 'repeated' }, batch.length - stored)
      this.#failures.succeeded()
      for (const { resolve, report } of batch) {
        this.#lastStored.set(report.gateway, report.sequence)
        resolve()
      }
    } catch (error) {
      metrics.usageReports.inc({ outcome: 'failed' }, batch.length)
      this.#failures.failed(asError(error))
      for (const { reject } of batch) reject(error)
    }
  }

  /** @returns how many were new */
  async #storeReports(reports: readonly ReceivedReport[]): Promise<number> {
    const { database, uses, clock, createLimitEvents } = this.#parts
    const nowMs = clock.wallMs()
    if (!this.#hasPartitions) await makePartitions(database, nowMs)
    this.#hasPartitions = true
    const stored = await storeReports(database, reports, nowMs, createLimitEvents)
    // Afterwards: a time only moves forward, so that a repeated report changes nothing.
    await uses.record(latestUses(reports))
    return stored.size
  }
}

function countEntries({ counts, refusals, omitted, limits, used }: ReceivedReport): number {
  return counts.length + refusals.length + omitted.length + limits.length + used.size
}

function latestUses(reports: readonly ReceivedReport[]): ReadonlyMap<string, number> {
  const latest = new Map<string, number>()
  for (const { used } of reports) {
    for (const [keyId, ms] of used) if (ms > (latest.get(keyId) ?? 0)) latest.set(keyId, ms)
  }
  return latest
}
