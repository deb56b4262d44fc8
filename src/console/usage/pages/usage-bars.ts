import { dateText } from '../../platform/html/times.ts'
import type { UsagePoint } from '../usage-points.ts'
import { CHART_RANGES, type ChartRange } from './chart-range.ts'

const DAY_MS = 86_400_000

/** Requests of an hour, a day or a week. */
export interface UsageBar {
  readonly label: string
  readonly served: number
  readonly notServed: number
}

/** In the order of time. Weeks are counted back from today, so that the first can be shorter. */
export function barsOf(points: readonly UsagePoint[], range: ChartRange): UsageBar[] {
  const { step, pointsPerBar } = CHART_RANGES[range]
  const bars: UsageBar[] = []
  for (let end = points.length; end > 0; end -= pointsPerBar) {
    const own = points.slice(Math.max(0, end - pointsPerBar), end)
    const isLast = end === points.length
    bars.push({ ...sumsOf(own), label: `${labelOf(own, step)}${isLast ? ', so far' : ''}` })
  }
  return bars.reverse()
}

export function sumsOf(points: readonly UsagePoint[]): Pick<UsageBar, 'served' | 'notServed'> {
  const requests = points.reduce((sum, point) => sum + point.requests, 0)
  const served = points.reduce((sum, { byCode }) => sum + (byCode['ok'] ?? 0), 0)
  return { served, notServed: requests - served }
}

function labelOf(points: readonly UsagePoint[], step: 'hour' | 'day'): string {
  const [first, last] = [points[0]?.atMs ?? 0, points.at(-1)?.atMs ?? 0]
  if (step === 'hour') return `${dateText(first)}, ${new Date(first).toISOString().slice(11, 16)}`
  return last - first < DAY_MS ? dateText(first) : `${dateText(first)} to ${dateText(last)}`
}

/** Counts by route or code, the most frequent first. */
export function totalsBy(
  points: readonly UsagePoint[],
  by: 'byCode' | 'byRoute' | 'servedByRoute',
): [name: string, requests: number][] {
  const totals = new Map<string, number>()
  for (const [name, count] of points.flatMap(point => Object.entries(point[by]))) {
    totals.set(name, (totals.get(name) ?? 0) + count)
  }
  return [...totals].sort(([a, more], [b, less]) => less - more || (a < b ? -1 : 1))
}
