import type { Clock } from '../../domain/clock.ts'
import { type DenialReason, denialRow } from '../../domain/denial.ts'
import { anonymizeAddress } from '../../domain/form/address.ts'
import type { LimitUse } from '../../domain/rate-limit.ts'
import {
  type CounterHandle,
  handlesBy,
  type Metrics,
  USAGE_LOSS_CAUSES,
} from '../../observability/metrics/metrics.ts'
import { type OmittedRefusals, RefusalLog, type ReportedRefusal } from './refusal-log.ts'

const MINUTE_MS = 60_000
const MINUTES_PER_HOUR = 60
/** Folded counts have few entries: one for each workspace, route, outcome and minute. */
const MAX_FOLDED_ENTRIES = 10_000
/** Entries of a report: serializing a larger one would block the event loop for more than a millisecond. */
const MAX_REPORT_ENTRIES = 1_000
const MAX_REPORT_REFUSALS = 200
const MAX_REPORT_LIMITS = 200

/** A request, as far as usage is concerned. */
export interface UsageRequest extends Pick<CountedRequest, 'reason' | 'truncated'> {
  /** Null if no record of the key was found. */
  readonly keyId: string | null
  readonly workspaceId: string | null
  readonly route: string
  readonly requestId: string
  readonly clientAddress: string
}

export interface ReportedCount {
  /** Null if the requests of several keys were counted together. */
  readonly keyId: string | null
  readonly workspaceId: string
  readonly route: string
  readonly code: string
  readonly minute: number
  readonly count: number
}

/** The part of a report that was gathered. */
export interface ReportContent {
  /** By key id, the time of the latest authenticated request. */
  readonly used: Readonly<Record<string, number>>
  readonly counts: readonly ReportedCount[]
  readonly refusals: readonly ReportedRefusal[]
  readonly omittedRefusals?: readonly OmittedRefusals[]
  readonly limits?: readonly LimitUse[]
  /** Counts lost since the report before. */
  readonly lost?: number
}

/** Windows of rate limits that wait to be reported. */
export interface NotedLimits {
  readonly size: number
  take(number: number): readonly LimitUse[]
}

interface UsageCountsParts {
  readonly clock: Clock
  readonly metrics: Pick<Metrics, 'usageFolded' | 'usageLost' | 'usageRefusalsOmitted'>
  /** If false, only the times of last use are noted. */
  readonly countsRequests: boolean
  readonly notesRefusals: boolean
  readonly maxEntries: number
  /** None by default. */
  readonly limits?: NotedLimits | undefined
}

/** Counts the requests of each key between two reports. When it is full, it counts by workspace; then counts are lost. */
export class UsageCounts {
  /**
   * True while a report is repeated: minutes are then rounded down to the hour, which is all that the console keeps, so that
   * a long failure fills the memory less.
   */
  isLate = false
  readonly #parts: UsageCountsParts
  readonly #byKey: CountTable
  readonly #byWorkspace = new CountTable(MAX_FOLDED_ENTRIES)
  readonly #refusals: RefusalLog | null
  readonly #folded: CounterHandle
  readonly #lostBy: Record<(typeof USAGE_LOSS_CAUSES)[number], CounterHandle>
  /** Since the report before. */
  #lost = 0

  constructor(parts: UsageCountsParts) {
    const { metrics } = parts
    this.#parts = parts
    this.#byKey = new CountTable(parts.maxEntries)
    this.#folded = metrics.usageFolded.handle({})
    this.#lostBy = handlesBy(USAGE_LOSS_CAUSES, cause => metrics.usageLost.handle({ cause }))
    const omitted = metrics.usageRefusalsOmitted.handle({})
    this.#refusals = parts.countsRequests && parts.notesRefusals ? new RefusalLog(omitted) : null
  }

  /** Entries in memory, without refusals. */
  get entries(): number {
    return this.#byKey.entries + this.#byWorkspace.entries
  }

  /** Reports that hold what is gathered now, at most. */
  get reports(): number {
    const refusals = this.#refusals?.size ?? 0
    // A row that is split is an entry of each part.
    const entriesOfEach = MAX_REPORT_ENTRIES - 1
    const limits = this.#parts.limits?.size ?? 0
    return (
      Math.ceil(this.entries / entriesOfEach) +
      Math.ceil(refusals / MAX_REPORT_REFUSALS) +
      Math.ceil(limits / MAX_REPORT_LIMITS)
    )
  }

  /** Counts a request that has ended. */
  record(request: UsageRequest, status: number, aborted: boolean): void {
    const { keyId, workspaceId, reason, truncated, route } = request
    // Requests without a known key belong to no workspace.
    if (keyId === null || workspaceId === null) return
    const { countsRequests, clock } = this.#parts
    const isUse = wasAuthenticated(reason)
    if (!isUse && !countsRequests) return
    const nowMs = clock.wallMs()
    const row = this.#byKey.ensureRow(keyId, workspaceId)
    if (isUse && row !== null) row.lastUsedMs = nowMs
    if (!countsRequests) return
    const code = nameOutcome({ status, aborted, truncated, reason })
    const minute = this.#minuteAt(nowMs)
    if (row === null || !this.#byKey.count(row, route, code, minute)) {
      this.#fold(workspaceId, route, code, minute)
    }
    if (reason === null || aborted) return
    this.#refusals?.record(workspaceId, nowMs, () => {
      const address = anonymizeAddress(request.clientAddress)
      return { at: nowMs, keyId, route, code, reason, requestId: request.requestId, address }
    })
  }

  /** Entries of a report that the key service refused by themselves. It knows of them. */
  noteRefused(requests: number): void {
    this.#lostBy.refused.inc(requests)
  }

  /** A whole report that the key service will never accept: the next one says how much was lost with it. */
  noteDropped({ counts, refusals, lost = 0 }: ReportContent): void {
    const requests = counts.reduce((sum, { count }) => sum + count, 0)
    // A report of lost counts alone that was refused is not sent again.
    if (counts.length > 0) this.#lost += requests + lost
    this.noteRefused(requests)
    this.#parts.metrics.usageRefusalsOmitted.inc({}, refusals.length)
  }

  /** Removes the oldest counts, for a report. @returns null if there is nothing to report */
  take(): ReportContent | null {
    const keys = this.#byKey.takeOldest(MAX_REPORT_ENTRIES)
    const workspaces = this.#byWorkspace.takeOldest(MAX_REPORT_ENTRIES)
    const { refusals, omitted } = this.#refusals?.take(MAX_REPORT_REFUSALS) ?? NO_REFUSALS
    const limits = this.#parts.limits?.take(MAX_REPORT_LIMITS) ?? []
    const lost = this.#lost
    this.#lost = 0
    const entries = keys.length + workspaces.length + refusals.length + omitted.length + limits.length
    if (entries + lost === 0) return null
    const used = keys.filter(({ lastUsedMs }) => lastUsedMs > 0)
    return {
      used: Object.fromEntries(used.map(({ id, lastUsedMs }) => [id, lastUsedMs])),
      counts: [
        ...keys.flatMap(row => reportedCounts(row, row.id)),
        ...workspaces.flatMap(row => reportedCounts(row, null)),
      ],
      refusals,
      ...(omitted.length === 0 ? {} : { omittedRefusals: omitted }),
      ...(limits.length === 0 ? {} : { limits }),
      ...(lost === 0 ? {} : { lost }),
    }
  }

  #minuteAt(nowMs: number): number {
    const minute = Math.floor(nowMs / MINUTE_MS)
    return this.isLate ? minute - (minute % MINUTES_PER_HOUR) : minute
  }

  #fold(workspaceId: string, route: string, code: string, minute: number): void {
    const row = this.#byWorkspace.ensureRow(workspaceId, workspaceId)
    if (row !== null && this.#byWorkspace.count(row, route, code, minute)) {
      this.#folded.inc()
      return
    }
    this.#lost++
    this.#lostBy.memory.inc()
  }
}

const NO_REFUSALS: ReturnType<RefusalLog['take']> = { refusals: [], omitted: [] }

function reportedCounts(row: CountedRow, keyId: string | null): ReportedCount[] {
  const { workspaceId } = row
  return listCounts(row).map(({ route, code, minute, count }) => {
    return { keyId, workspaceId, route, code, minute, count }
  })
}

/** Requests of one route with one outcome in one minute. */
interface RequestCount {
  readonly route: string
  readonly code: string
  /** Whole minutes since the epoch. */
  readonly minute: number
  count: number
  /** A list takes half the memory of an array: a key has few counts. */
  next: RequestCount | null
}

/** What is to be reported of one key or workspace. */
interface CountedRow {
  readonly id: string
  readonly workspaceId: string
  /** Milliseconds since the epoch; 0 if there was no authenticated request. */
  lastUsedMs: number
  latest: RequestCount | null
}

/** Unreported counts by key or workspace, bounded. Each row is an entry, and so is each of its counts. */
export class CountTable {
  readonly #maxEntries: number
  readonly #rows = new Map<string, CountedRow>()
  #entries = 0

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries
  }

  get entries(): number {
    return this.#entries
  }

  /** @returns null if the table is full and has no row of this id */
  ensureRow(id: string, workspaceId: string): CountedRow | null {
    const known = this.#rows.get(id)
    if (known !== undefined) return known
    if (this.#entries >= this.#maxEntries) return null
    const row: CountedRow = { id, workspaceId, lastUsedMs: 0, latest: null }
    this.#rows.set(id, row)
    this.#entries++
    return row
  }

  /** @returns false if the table is full: the request was not counted */
  count(row: CountedRow, route: string, code: string, minute: number): boolean {
    for (let known = row.latest; known !== null; known = known.next) {
      if (known.minute === minute && known.route === route && known.code === code) {
        known.count++
        return true
      }
    }
    if (this.#entries >= this.#maxEntries) return false
    row.latest = { route, code, minute, count: 1, next: row.latest }
    this.#entries++
    return true
  }

  /** Removes the oldest rows, with at most so many entries together. Of a row that does not fit, it removes a part. */
  takeOldest(entries: number): CountedRow[] {
    const taken: CountedRow[] = []
    let left = entries
    for (const row of this.#rows.values()) {
      const counts = listCounts(row)
      if (1 + counts.length > left) {
        if (left > 1) taken.push(this.#takePart(row, counts, left - 1))
        break
      }
      taken.push(row)
      this.#rows.delete(row.id)
      this.#entries -= 1 + counts.length
      left -= 1 + counts.length
    }
    return taken
  }

  /** Removes the latest counts of a row, of which more than so many remain. */
  #takePart(row: CountedRow, counts: readonly RequestCount[], number: number): CountedRow {
    const part = { ...row }
    const last = counts[number - 1]
    row.latest = counts[number] ?? null
    if (last !== undefined) last.next = null
    // It was reported once; the next request with the key sets it again.
    row.lastUsedMs = 0
    this.#entries -= number
    return part
  }
}

/** The counts of a row, the latest first. */
export function listCounts({ latest }: CountedRow): RequestCount[] {
  const counts: RequestCount[] = []
  for (let count = latest; count !== null; count = count.next) counts.push(count)
  return counts
}

/** How a request ended. */
interface CountedRequest {
  readonly status: number
  /** The client disconnected before the end of its response. */
  readonly aborted: boolean
  /** The upstream broke off in the middle of the response. */
  readonly truncated: boolean
  /** Null if the upstream's own response was passed on. */
  readonly reason: DenialReason | null
}

/**
 * The name under which usage counts a request: `ok` for 2xx and 3xx, the public code of a denial, `upstream_rejected` for a
 * 4xx that the upstream answered itself, whose own codes have no bound.
 */
export function nameOutcome({ status, aborted, truncated, reason }: CountedRequest): string {
  if (aborted) return 'client_aborted'
  if (truncated) return 'upstream_error'
  if (reason !== null) return denialRow(reason).code
  return status < 400 ? 'ok' : 'upstream_rejected'
}

/** Whether the key of a request was found usable, although the request may have been denied. */
export function wasAuthenticated(reason: DenialReason | null): boolean {
  return reason === null || denialRow(reason).status !== 401
}
