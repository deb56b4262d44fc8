import { isCount } from '../../domain/wire.ts'
import type { UsageReport } from './report-sequence.ts'
import type { ReportedCount } from './usage-counts.ts'

/**
 * @returns the number of requests in the counts that the response to a report refuses: as it says, or else those of the entries
 * that it names. A response that refuses nothing, or is in another form, loses nothing.
 */
export function refusedCounts({ counts }: UsageReport, response: string): number {
  const { requests, first } = readResponse(response)
  if (isCount(requests)) return Math.min(requests, sumOf(counts))
  const named = Array.isArray(first) ? first.filter(isOfCounts) : []
  const indexes = new Set(named.map(({ index }) => index))
  return sumOf(counts.filter((_, index) => indexes.has(index)))
}

function sumOf(counts: readonly ReportedCount[]): number {
  return counts.reduce((sum, { count }) => sum + count, 0)
}

function readResponse(response: string): { readonly requests?: unknown; readonly first?: unknown } {
  try {
    const json: unknown = JSON.parse(response)
    return typeof json === 'object' && json !== null ? json : {}
  } catch {
    return {}
  }
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
