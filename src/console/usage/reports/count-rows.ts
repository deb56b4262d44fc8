import { setImmediate } from 'node:timers/promises'
import { sql, type Transaction } from 'kysely'
import type { Dialect } from '../../platform/database/database.ts'
import { type Column, rowsFrom } from '../../platform/database/query-parts.ts'
import { FIVE_MINUTES, type FiveMinutes, type Tables, type UsageRow } from '../../platform/database/tables.ts'
import type { Count } from './check-report.ts'

/** Of one statement: a few milliseconds in SQLite. */
export const ROWS_AT_ONCE = 500
const MINUTE_MS = 60_000
/** Smallest units that are kept, in minutes. */
const HOUR = 60
const DAY = 1440
/** Between a request and the report that counts it; `usage.reportSeconds` is half of it at most. */
const IN_TIME_MS = 10 * MINUTE_MS

/** The counts of a key, or of a workspace, in an hour or a day, and of the five minutes in it that are known. */
export type CountRow = UsageRow & { readonly [Column in FiveMinutes]?: number }

export function sumByHour(counts: readonly Count[], nowMs: number): CountRow[] {
  return sumRows(counts, HOUR, ({ minute }) => fiveMinutesOf(minute, nowMs))
}

export function sumByDay(counts: readonly Count[]): CountRow[] {
  return sumRows(counts, DAY, () => null)
}

/**
 * While its reports fail, a gateway rounds minutes down to the hour (`isLate` of `UsageCounts`). Such a count has no place within the hour:
 * one of a first minute is taken for it if it comes later than reports do.
 */
function fiveMinutesOf(minute: number, nowMs: number): FiveMinutes | null {
  const withinHour = minute % HOUR
  if (withinHour === 0 && nowMs - minute * MINUTE_MS > IN_TIME_MS) return null
  return FIVE_MINUTES[Math.floor((withinHour / HOUR) * FIVE_MINUTES.length)] ?? null
}

type GrowingRow = UsageRow & { count: number } & { [Column in FiveMinutes]?: number }

/** A row for each key, and one for each workspace. In one order, so that two consoles cannot deadlock. */
function sumRows(
  counts: readonly Count[],
  minutes: number,
  partOf: (count: Count) => FiveMinutes | null,
): CountRow[] {
  const totals = new Map<string, GrowingRow>()
  const add = (added: Count, keyId: string) => {
    const { workspaceId, route, code, minute, count } = added
    const bucket = Math.floor(minute / minutes)
    const place = `${workspaceId} ${keyId} ${bucket} ${route} ${code}`
    let row = totals.get(place)
    if (row === undefined) {
      row = { workspace_id: workspaceId, key_id: keyId, bucket, route, code, count: 0 }
      totals.set(place, row)
    }
    row.count += count
    const part = partOf(added)
    if (part !== null) row[part] = (row[part] ?? 0) + count
  }
  for (const count of counts) {
    if (count.keyId !== null) add(count, count.keyId)
    add(count, '')
  }
  return [...totals].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row)
}

/** Adds to what is stored of the same key, time, route and code. */
export async function addCounts(
  tx: Transaction<Tables>,
  table: 'usage_hours' | 'usage_days',
  rows: readonly CountRow[],
  dialect: Dialect,
): Promise<void> {
  for (let from = 0; from < rows.length; from += ROWS_AT_ONCE) {
    // SQLite writes in the thread of the event loop.
    await setImmediate()
    await addRows(tx, table, rows.slice(from, from + ROWS_AT_ONCE), dialect)
  }
}

async function addRows(
  tx: Transaction<Tables>,
  table: 'usage_hours' | 'usage_days',
  rows: readonly CountRow[],
  dialect: Dialect,
): Promise<void> {
  // Those that reports of a moment are about: one or two.
  const parts = FIVE_MINUTES.filter(part => rows.some(row => row[part] !== undefined))
  const columns: readonly (Column & { readonly name: string })[] = [
    { name: 'workspace_id', values: rows.map(row => row.workspace_id), type: 'text' },
    { name: 'key_id', values: rows.map(row => row.key_id), type: 'text' },
    { name: 'bucket', values: rows.map(row => row.bucket), type: 'integer' },
    { name: 'route', values: rows.map(row => row.route), type: 'text' },
    { name: 'code', values: rows.map(row => row.code), type: 'text' },
    { name: 'count', values: rows.map(row => row.count), type: 'bigint' },
    ...parts.map(
      part => ({ name: part, values: rows.map(row => row[part] ?? null), type: 'bigint' }) as const,
    ),
  ]
  const names = sql.join(columns.map(({ name }) => sql.ref(name)))
  const places = sql.join(columns.map((_, index) => sql.ref(`c${index}`)))
  const sums = parts.map(part => {
    const [stored, added] = [sql.ref(`${table}.${part}`), sql.ref(`excluded.${part}`)]
    return sql`, ${sql.ref(part)} = coalesce(${stored} + ${added}, ${stored}, ${added})`
  })
  await sql`
    insert into ${sql.table(table)} (${names}) select ${places} from ${rowsFrom(columns, dialect)} where true
    on conflict (workspace_id, key_id, bucket, route, code)
    do update set count = ${sql.ref(`${table}.count`)} + excluded.count${sql.join(sums, sql``)}`.execute(tx)
}
