import type { KeyRecord } from '../../../domain/key/key-record.ts'
import { lastPoints } from '../../usage/usage-range.ts'
import { type ChartRange, pointsIn } from '../forms/chart-range.ts'
import type { PageDependencies } from '../page-dependencies.ts'
import type { KeyUsage } from '../pages/key-usage.ts'
import type { RecentUse } from '../pages/last-use.ts'
import { sumsOf } from '../pages/usage-bars.ts'

type Sources = Pick<PageDependencies, 'registry' | 'usage'>

/** @returns null if requests are not counted */
export async function keyUsageOf(
  { registry, usage }: Sources,
  record: KeyRecord,
  range: ChartRange,
): Promise<KeyUsage | null> {
  if (!usage.keeps.counts) return null
  const [points, asOfMs] = await Promise.all([
    usage.queries.usageOfKey(record, pointsIn(range, registry.clock.wallMs())),
    usage.queries.asOfMs(),
  ])
  return { range, points, asOfMs }
}

/** @returns null without a key, and if requests are not counted */
export async function recentUseOf(
  { registry, usage }: Sources,
  record: KeyRecord | null,
): Promise<RecentUse | null> {
  if (record === null || !usage.keeps.counts) return null
  const points = await usage.queries.usageOfKey(record, lastPoints('hour', 2, registry.clock.wallMs()))
  return { sinceMs: points[0]?.atMs ?? 0, ...sumsOf(points) }
}
