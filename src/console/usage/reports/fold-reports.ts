import type { UsageRow } from '../../platform/database/tables.ts'
import type { CheckedEntries, Count, Refusal } from './check-report.ts'

/** Refusals that are kept of each workspace. */
export const REFUSALS_KEPT = 200
/** Smallest units that are kept, in minutes. */
const HOUR = 60
const DAY = 1440

export interface FoldedReports {
  readonly hours: readonly UsageRow[]
  readonly days: readonly UsageRow[]
  readonly refusals: readonly Refusal[]
  /** Workspaces of which gateways left refusals out. */
  readonly omitted: readonly string[]
}

/** Adds up what many gateways report about the same keys, so that the database has one row to change for each. */
export function foldReports(reports: readonly CheckedEntries[]): FoldedReports {
  const counts = reports.flatMap(report => report.counts)
  const byWorkspace = Map.groupBy(
    reports.flatMap(report => report.refusals),
    refusal => refusal.workspaceId,
  )
  const omitted = new Set(reports.flatMap(report => report.omitted))
  const refusals = [...byWorkspace.values()].flatMap(all =>
    all.sort((a, b) => b.atMs - a.atMs).slice(0, REFUSALS_KEPT),
  )
  return { hours: sumRows(counts, HOUR), days: sumRows(counts, DAY), refusals, omitted: [...omitted].sort() }
}

/** A row for each key, and one for each workspace. In one order, so that two consoles cannot deadlock. */
function sumRows(counts: readonly Count[], minutes: number): UsageRow[] {
  const totals = new Map<string, UsageRow & { count: number }>()
  const add = ({ workspaceId, route, code, minute, count }: Count, keyId: string) => {
    const bucket = Math.floor(minute / minutes)
    const place = `${workspaceId} ${keyId} ${bucket} ${route} ${code}`
    const row = totals.get(place)
    if (row === undefined) {
      totals.set(place, { workspace_id: workspaceId, key_id: keyId, bucket, route, code, count })
    } else row.count += count
  }
  for (const count of counts) {
    if (count.keyId !== null) add(count, count.keyId)
    add(count, '')
  }
  return [...totals].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row)
}
