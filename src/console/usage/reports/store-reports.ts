import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { sql, type Transaction } from 'kysely'
import { LRUCache } from 'lru-cache'
import { atMost } from '../../../domain/bounded.ts'
import type { Clock, Timers } from '../../../domain/clock.ts'
import type { ControlLogger } from '../../../observability/control-logger.ts'
import { asError, FailureLog } from '../../../observability/failure-log.ts'
import type { Metrics } from '../../../observability/metrics/metrics.ts'
import type { Database, Dialect } from '../../platform/database/database.ts'
import { rowsFrom } from '../../platform/database/query-parts.ts'
import type { RefusalRow, Tables } from '../../platform/database/tables.ts'
import { shareRuns } from '../../platform/jobs/share-runs.ts'
import type { CheckedEntries, CheckedReport, Refusal } from './check-report.ts'
import { addCounts, type CountRow, ROWS_AT_ONCE, sumByDay, sumByHour } from './count-rows.ts'
import { type ReachedLimit, storeLimitUses } from './limit-uses.ts'
import { makePartitions } from './rows.ts'
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

interface GatheringParts {
  readonly database: Database
  readonly uses: Pick<UseWriter, 'record'>
  readonly clock: Clock
  readonly timers: Timers
  readonly logger: ControlLogger
  readonly metrics: Pick<Metrics, 'usageReports'>
  /** Without it no webhook learns of limits. */
  readonly addLimitEvents?: AddLimitEvents
}

/** A report, with the times at which keys were last used. */
interface ReceivedReport extends CheckedReport {
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
  readonly #lastStored = new LRUCache<string, number>(atMost(MAX_GATEWAYS))
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
    const { database, uses, clock, addLimitEvents } = this.#parts
    const nowMs = clock.wallMs()
    if (!this.#hasPartitions) await makePartitions(database, nowMs)
    this.#hasPartitions = true
    const stored = await storeReports(database, reports, nowMs, addLimitEvents)
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

/** Of the whole transaction's statements: a database that is slower than this loses counts, and changes to keys go on. */
const STATEMENT_TIMEOUT_MS = 3000
const LOCK_TIMEOUT_MS = 2000

/** Adds the webhook events of limits that were nearly or wholly used up, in the transaction that stores this. */
export type AddLimitEvents = (tx: Transaction<Tables>, reached: readonly ReachedLimit[]) => Promise<void>

/**
 * Stores reports of different gateways in one transaction. The number of a gateway's last report is stored with its counts,
 * so that a repeated report counts once: at any console, also after a restart of gateway or console.
 * @returns the gateways whose report was new
 */
export function storeReports(
  { writer, dialect }: Pick<Database, 'writer' | 'dialect'>,
  reports: readonly CheckedReport[],
  nowMs: number,
  addLimitEvents: AddLimitEvents = async () => {},
): Promise<ReadonlySet<string>> {
  const store = async (tx: Transaction<Tables>) => {
    if (dialect === 'postgres') await limitTime(tx)
    const accepted = await claimSequences(tx, reports, nowMs, dialect)
    const fresh = reports.filter(({ gateway }) => accepted.has(gateway))
    const folded = foldReports(fresh, nowMs)
    await addCounts(tx, 'usage_hours', folded.hours, dialect)
    await addCounts(tx, 'usage_days', folded.days, dialect)
    await addRefusals(tx, folded, nowMs)
    await addLimitEvents(tx, await storeLimitUses(tx, fresh, nowMs, dialect))
    return accepted
  }
  const transaction = writer.transaction()
  return (dialect === 'postgres' ? transaction.setIsolationLevel('read committed') : transaction).execute(
    store,
  )
}

async function limitTime(tx: Transaction<Tables>): Promise<void> {
  await sql`select set_config('statement_timeout', ${String(STATEMENT_TIMEOUT_MS)}, true),
    set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, true)`.execute(tx)
}

/** One statement: of two consoles that receive the same report, one waits for the other and then sees its number. */
async function claimSequences(
  tx: Transaction<Tables>,
  reports: readonly CheckedReport[],
  nowMs: number,
  dialect: Dialect,
): Promise<ReadonlySet<string>> {
  const sorted = reports.toSorted((a, b) => (a.gateway < b.gateway ? -1 : 1))
  const columns = [
    { values: sorted.map(({ gateway }) => gateway), type: 'text' },
    { values: sorted.map(({ sequence }) => sequence), type: 'bigint' },
  ] as const
  const { rows } = await sql<{ gateway: string }>`
    insert into usage_gateways (gateway, sequence, seen_at_ms)
    select reported.c0, reported.c1, cast(${nowMs} as bigint) from ${rowsFrom(columns, dialect)} where true
    on conflict (gateway) do update set sequence = excluded.sequence, seen_at_ms = excluded.seen_at_ms
    where usage_gateways.sequence < excluded.sequence
    returning gateway`.execute(tx)
  return new Set(rows.map(row => row.gateway))
}

/** Adds refusals, and deletes all but the last of each workspace that has new ones. */
async function addRefusals(
  tx: Transaction<Tables>,
  { refusals, omitted }: Pick<FoldedReports, 'refusals' | 'omitted'>,
  nowMs: number,
): Promise<void> {
  for (let from = 0; from < refusals.length; from += ROWS_AT_ONCE) {
    // SQLite writes in the thread of the event loop.
    await setImmediate()
    await tx
      .insertInto('refusals')
      .values(refusals.slice(from, from + ROWS_AT_ONCE).map(toRefusalRow))
      .execute()
  }
  const workspaces = [...new Set(refusals.map(refusal => refusal.workspaceId))].sort()
  for (let from = 0; from < workspaces.length; from += ROWS_AT_ONCE) {
    await keepTheLast(tx, workspaces.slice(from, from + ROWS_AT_ONCE))
  }
  for (const workspaceId of omitted) {
    await tx
      .insertInto('refusal_gaps')
      .values({ workspace_id: workspaceId, at_ms: nowMs })
      .onConflict(conflict => conflict.column('workspace_id').doUpdateSet({ at_ms: nowMs }))
      .execute()
  }
}

async function keepTheLast(tx: Transaction<Tables>, workspaces: readonly string[]): Promise<void> {
  await sql`
    delete from refusals where (workspace_id, at_ms, id) in (
      select workspace_id, at_ms, id from (
        select workspace_id, at_ms, id,
          row_number() over (partition by workspace_id order by at_ms desc, id desc) as place
        from refusals where workspace_id in (${sql.join(workspaces)})) as ranked
      where place > ${REFUSALS_KEPT})`.execute(tx)
}

function toRefusalRow(refusal: Refusal): RefusalRow {
  const { workspaceId, atMs, keyId, route, code, reason, requestId, address } = refusal
  const names = { workspace_id: workspaceId, at_ms: atMs, id: randomUUID(), key_id: keyId }
  return { ...names, route, code, reason, request_id: requestId, address }
}

/** Refusals that are kept of each workspace. */
export const REFUSALS_KEPT = 200

interface FoldedReports {
  readonly hours: readonly CountRow[]
  readonly days: readonly CountRow[]
  readonly refusals: readonly Refusal[]
  /** Workspaces of which gateways left refusals out. */
  readonly omitted: readonly string[]
}

/** Adds up what many gateways report about the same keys, so that the database has one row to change for each. */
export function foldReports(reports: readonly CheckedEntries[], nowMs: number): FoldedReports {
  const counts = reports.flatMap(report => report.counts)
  const byWorkspace = Map.groupBy(
    reports.flatMap(report => report.refusals),
    refusal => refusal.workspaceId,
  )
  const omitted = new Set(reports.flatMap(report => report.omitted))
  const refusals = [...byWorkspace.values()].flatMap(all =>
    all.sort((a, b) => b.atMs - a.atMs).slice(0, REFUSALS_KEPT),
  )
  return { hours: sumByHour(counts, nowMs), days: sumByDay(counts), refusals, omitted: [...omitted].sort() }
}
