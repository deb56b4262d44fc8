import type { KeyRecord } from '../../../domain/key/key-record.ts'
import type { Registry } from '../../keys/registry.ts'
import { lastPoints, msOf } from '../usage-range.ts'
import type { UsageService } from '../usage-service.ts'
import type { AllUsage } from './all-usage-page.ts'
import { type ChartRange, pointsIn } from './chart-range.ts'
import type { KeyUsage } from './key-usage.ts'
import type { RecentUse } from './last-use.ts'
import { sumsOf } from './usage-bars.ts'
import type { WorkspaceUsage } from './usage-page.ts'

/** The present day included. */
const BUSIEST_DAYS = 7
const BUSIEST_KEYS = 10
const BUSIEST_WORKSPACES = 100

/** What the pages of usage, and the figures on the page of a key, use. */
export interface UsagePageParts {
  readonly registry: Registry
  readonly usage: Pick<UsageService, 'stores' | 'queries'>
}

/** @returns null if requests are not counted */
export async function keyUsageOf(
  { registry, usage }: UsagePageParts,
  record: KeyRecord,
  range: ChartRange,
): Promise<KeyUsage | null> {
  if (!usage.stores.counts) return null
  const [points, asOfMs] = await Promise.all([
    usage.queries.usageOfKey(record, pointsIn(range, registry.clock.wallMs())),
    usage.queries.asOfMs(),
  ])
  return { range, points, asOfMs }
}

/** @returns null without a key, and if requests are not counted */
export async function recentUseOf(
  { registry, usage }: UsagePageParts,
  record: KeyRecord | null,
): Promise<RecentUse | null> {
  if (record === null || !usage.stores.counts) return null
  const points = await usage.queries.usageOfKey(record, lastPoints('hour', 2, registry.clock.wallMs()))
  return { sinceMs: points[0]?.atMs ?? 0, ...sumsOf(points) }
}

/** @returns null if requests are not counted */
export async function workspaceUsageOf(
  { registry, usage }: UsagePageParts,
  workspaceId: string,
  range: ChartRange,
): Promise<WorkspaceUsage | null> {
  if (!usage.stores.counts) return null
  const nowMs = registry.clock.wallMs()
  const days = lastPoints('day', BUSIEST_DAYS, nowMs)
  const [points, asOfMs, busiest] = await Promise.all([
    usage.queries.usageOfWorkspace(workspaceId, pointsIn(range, nowMs)),
    usage.queries.asOfMs(),
    usage.queries.busiestKeys(workspaceId, days, BUSIEST_KEYS),
  ])
  const keys = await registry.repository.findByIds(busiest.map(({ name }) => name))
  return { range, points, asOfMs, busiest, busiestSinceMs: msOf(days.step, days.from), keys }
}

/** @returns null if requests are not counted */
export async function allUsageOf({ registry, usage }: UsagePageParts): Promise<AllUsage | null> {
  if (!usage.stores.counts) return null
  const days = lastPoints('day', BUSIEST_DAYS, registry.clock.wallMs())
  const [busiest, asOfMs] = await Promise.all([
    usage.queries.busiestWorkspaces(null, days, BUSIEST_WORKSPACES),
    usage.queries.asOfMs(),
  ])
  return { busiest, sinceMs: msOf(days.step, days.from), limit: BUSIEST_WORKSPACES, asOfMs }
}
