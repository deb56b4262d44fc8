import type { UsageReport } from './report-sequence.ts'
import type { ReportedCount } from './usage-counts.ts'

/** @returns the number of requests in the counts that the response to a report refuses */
export function refusedCounts({ counts }: UsageReport, response: string): number {
  const indexes = new Set(refusedEntries(response).map(({ index }) => index))
  return sumOf(counts.filter((_, index) => indexes.has(index)))
}

export function sumOf(counts: readonly ReportedCount[]): number {
  return counts.reduce((sum, { count }) => sum + count, 0)
}

interface RefusedEntry {
  /** The field of the report that holds the entry. */
  readonly list?: unknown
  readonly index: unknown
}

/** A response without such a list, as an empty one, refuses nothing. */
function refusedEntries(response: string): RefusedEntry[] {
  try {
    // Any value but null has fields, if not this one.
    const { refused } = JSON.parse(response) as { refused?: unknown }
    return Array.isArray(refused) ? refused.filter(isOfCounts) : []
  } catch {
    return []
  }
}

function isOfCounts(entry: unknown): entry is RefusedEntry {
  if (typeof entry !== 'object' || entry === null || !('index' in entry)) return false
  return !('list' in entry) || entry.list === 'counts'
}
