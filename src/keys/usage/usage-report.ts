import { parseJsonObject } from '../../domain/form/json.ts'
import { isCount } from '../../domain/wire.ts'
import type { ReportContent, ReportedCount } from './usage-counts.ts'

/** A numbered report. */
export interface UsageReport extends ReportContent {
  /** This process: no other has this name, and neither has the same gateway after a restart. */
  readonly gateway: string
  /** From 1. The key service counts each sequence number of a gateway once. */
  readonly sequence: number
}

/**
 * Numbers reports. A report is repeated unchanged until it is settled, and only then the next one is made: whether a report
 * that failed was counted is unknown.
 */
export class ReportSequence {
  readonly #gateway: string
  readonly #take: () => ReportContent | null
  readonly #onNumbered: (report: UsageReport) => void
  #sequence = 0
  #unsettled: UsageReport | null = null

  /** @param take removes what is to be reported next @param onNumbered called once for each report */
  constructor(
    gateway: string,
    take: () => ReportContent | null,
    onNumbered: (report: UsageReport) => void = () => {},
  ) {
    this.#gateway = gateway
    this.#take = take
    this.#onNumbered = onNumbered
  }

  /** @returns the report to send now; null if there is none */
  next(): UsageReport | null {
    if (this.#unsettled !== null) return this.#unsettled
    const content = this.#take()
    if (content === null) return null
    this.#sequence++
    this.#unsettled = { gateway: this.#gateway, sequence: this.#sequence, ...content }
    this.#onNumbered(this.#unsettled)
    return this.#unsettled
  }

  /** The report was acknowledged, or will never be accepted. */
  settle(): void {
    this.#unsettled = null
  }
}

/** The body of a report in the key service contract: a count or limit names its key, or the workspace if there is none. */
export function toReportBody(report: UsageReport): object {
  const { counts, limits } = report
  return {
    ...report,
    counts: counts.map(nameOne),
    ...(limits === undefined ? {} : { limits: limits.map(nameOne) }),
  }
}

function nameOne(entry: { readonly keyId: string | null; readonly workspaceId: string }): object {
  const { keyId, workspaceId, ...rest } = entry
  return keyId === null ? { workspaceId, ...rest } : { keyId, ...rest }
}

/**
 * @returns the number of requests in the counts that the response to a report refuses: as it says, or else those of the entries
 * that it names. A response that refuses nothing, or is in another form, loses nothing.
 */
export function refusedCounts({ counts }: UsageReport, response: string): number {
  const { requests, first }: Readonly<Record<string, unknown>> = parseJsonObject(response) ?? {}
  if (isCount(requests)) return Math.min(requests, sumCounts(counts))
  const named = Array.isArray(first) ? first.filter(isOfCounts) : []
  const indexes = new Set(named.map(({ index }) => index))
  return sumCounts(counts.filter((_, index) => indexes.has(index)))
}

function sumCounts(counts: readonly ReportedCount[]): number {
  return counts.reduce((sum, { count }) => sum + count, 0)
}

interface RefusedEntry {
  /** The field of the report that holds the entry. */
  readonly list?: unknown
  readonly index: unknown
}

function isOfCounts(entry: unknown): entry is RefusedEntry {
  if (typeof entry !== 'object' || entry === null || !('index' in entry)) return false
  return !('list' in entry) || entry.list === 'counts'
}
