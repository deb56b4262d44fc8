import type { UsageRow } from '../platform/database/tables.ts'
import { msOf, type UsageRange } from './usage-range.ts'

/** An hour or a day. */
export interface UsagePoint {
  readonly atMs: number
  readonly requests: number
  /** `ok`, and the codes of what was not served. */
  readonly byCode: Readonly<Record<string, number>>
  readonly byRoute: Readonly<Record<string, number>>
  /** Requests with the code `ok`. */
  readonly servedByRoute: Readonly<Record<string, number>>
}

/** A point for each hour or day of the range, also where nothing was counted. */
export function pointsOf(
  { step, from, until }: UsageRange,
  rows: readonly Pick<UsageRow, 'bucket' | 'route' | 'code' | 'count'>[],
): UsagePoint[] {
  const byBucket = Map.groupBy(rows, row => row.bucket)
  return Array.from({ length: until - from }, (_, index) => {
    const own = byBucket.get(from + index) ?? []
    return {
      atMs: msOf(step, from + index),
      requests: own.reduce((sum, { count }) => sum + count, 0),
      byCode: sumBy(own, ({ code }) => code),
      byRoute: sumBy(own, ({ route }) => route),
      servedByRoute: sumBy(
        own.filter(({ code }) => code === 'ok'),
        ({ route }) => route,
      ),
    }
  })
}

function sumBy<Row extends { readonly count: number }>(
  rows: readonly Row[],
  nameOf: (row: Row) => string,
): Record<string, number> {
  const sums = new Map<string, number>()
  for (const row of rows) sums.set(nameOf(row), (sums.get(nameOf(row)) ?? 0) + row.count)
  return Object.fromEntries([...sums].sort(([a], [b]) => (a < b ? -1 : 1)))
}
