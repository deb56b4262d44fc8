import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import type { Database } from '../../platform/database/database.ts'
import type { Tables } from '../../platform/database/tables.ts'

const COUNT_TABLES = ['usage_hours', 'usage_days'] as const
/** Counts by hour, and by day. */
export type CountTable = (typeof COUNT_TABLES)[number]

const DAY_MS = 86_400_000
const DAY_HOURS = 24
/** Hours are kept for two weeks, days for a year and some weeks. */
const HOURS_KEPT_DAYS = 14
const DAYS_KEPT_DAYS = 400
/** Partitions are made this far ahead: consoles may be stopped, or fail to make them, for a while. */
const AHEAD_DAYS = 3
export const REFUSALS_KEPT_MS = 7 * DAY_MS
/** After the end of their window. */
const LIMITS_KEPT_MS = DAY_MS
const PURGED_AT_ONCE = 1000
/** A gateway that is silent for longer is another process when it reports again. */
const GATEWAYS_KEPT_MS = 2 * DAY_MS
/** Of several consoles, one makes partitions at a time. An arbitrary number of ours. */
const PARTITION_LOCK = 7_302_118_555
const LOCK_TIMEOUT_MS = '2000'

/** Makes the partitions that reports of the next days need. SQLite has none. */
export async function makePartitions({ writer, dialect }: Database, nowMs: number): Promise<void> {
  if (dialect === 'sqlite') return
  const needed = partitionsFor(nowMs)
  const existing = new Set(await partitionNames(writer))
  if (needed.every(({ name }) => existing.has(name))) return
  await writer.transaction().execute(async tx => {
    await lockPartitions(tx)
    await createPartitions(tx, needed)
  })
}

/** Those that do not exist yet. PostgreSQL only. */
export async function createPartitions(
  tx: Transaction<Tables>,
  partitions: readonly Partition[],
): Promise<void> {
  for (const { name, table, from, until } of partitions) {
    // Room in each page, so that adding to a count changes no index.
    await sql`create table if not exists ${sql.table(name)} partition of ${sql.table(table)}
      for values from (${sql.lit(from)}) to (${sql.lit(until)}) with (fillfactor = 80)`.execute(tx)
  }
}

/** Removes what is past its retention: whole partitions in PostgreSQL, rows in small batches in SQLite. */
export async function purgeUsage(database: Database, nowMs: number): Promise<void> {
  const { writer, dialect } = database
  if (dialect === 'postgres') await dropPartitions(writer, nowMs)
  else for (const table of COUNT_TABLES) await deleteInBatches(writer, oldCounts(table, nowMs))
  const refusalsFromMs = nowMs - REFUSALS_KEPT_MS
  await deleteInBatches(
    writer,
    sql`delete from refusals where (workspace_id, at_ms, id) in (
      select workspace_id, at_ms, id from refusals where at_ms < ${refusalsFromMs} limit ${PURGED_AT_ONCE})`,
  )
  await writer.deleteFrom('refusal_gaps').where('at_ms', '<', refusalsFromMs).execute()
  await deleteInBatches(
    writer,
    sql`delete from limit_uses where id in (
      select id from limit_uses where ends_at_ms < ${nowMs - LIMITS_KEPT_MS} limit ${PURGED_AT_ONCE})`,
  )
  await writer
    .deleteFrom('usage_gateways')
    .where('seen_at_ms', '<', nowMs - GATEWAYS_KEPT_MS)
    .execute()
}

async function dropPartitions(writer: Kysely<Tables>, nowMs: number): Promise<void> {
  for (const name of pastPartitions(await partitionNames(writer), nowMs)) {
    await writer.transaction().execute(async tx => {
      await lockPartitions(tx)
      await sql`drop table if exists ${sql.table(name)}`.execute(tx)
    })
  }
}

/** Waits for other consoles and for queries, but not for long: the next run tries again. */
async function lockPartitions(tx: Transaction<Tables>): Promise<void> {
  await sql`select set_config('lock_timeout', ${LOCK_TIMEOUT_MS}, true)`.execute(tx)
  await sql`select pg_advisory_xact_lock(${PARTITION_LOCK})`.execute(tx)
}

async function partitionNames(database: Kysely<Tables>): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select child.relname as name from pg_inherits join pg_class as child on child.oid = inhrelid
    where inhparent in ('usage_hours'::regclass, 'usage_days'::regclass)`.execute(database)
  return rows.map(row => row.name)
}

/** Rows are stored nearly in the order of time: only the first are examined, without an index by time. */
function oldCounts(table: CountTable, nowMs: number): RawBuilder<unknown> {
  return sql`delete from ${sql.table(table)} where rowid in (
    select rowid from (select rowid, bucket from ${sql.table(table)} order by rowid limit ${PURGED_AT_ONCE})
    where bucket < ${oldestBucket(table, nowMs)})`
}

/** @param batch deletes at most `PURGED_AT_ONCE` rows */
async function deleteInBatches(writer: Kysely<Tables>, batch: RawBuilder<unknown>): Promise<void> {
  let deleted: bigint | undefined
  do {
    deleted = (await batch.execute(writer)).numAffectedRows
  } while (deleted === BigInt(PURGED_AT_ONCE))
}

/** A part of a table of counts: hours by day, days by month. */
interface Partition {
  readonly name: string
  readonly table: CountTable
  /** The first bucket. */
  readonly from: number
  /** The bucket after the last. */
  readonly until: number
}

/** The partitions that counts of now may need: late reports, and those of the next days. */
export function partitionsFor(nowMs: number): Partition[] {
  const today = Math.floor(nowMs / DAY_MS)
  const days = Array.from(
    { length: HOURS_KEPT_DAYS + AHEAD_DAYS + 1 },
    (_, index) => today - HOURS_KEPT_DAYS + index,
  )
  const months = new Map(
    days.map(day => createDaysPartition(day)).map(partition => [partition.name, partition]),
  )
  return [...days.map(createHoursPartition), ...months.values()]
}

/** The partitions that hold these buckets, and those between them. */
export function partitionsCovering(table: CountTable, first: number, last: number): Partition[] {
  const perDay = table === 'usage_hours' ? DAY_HOURS : 1
  const findPartition = table === 'usage_hours' ? createHoursPartition : createDaysPartition
  const partitions: Partition[] = []
  let bucket = first
  while (bucket <= last) {
    const partition = findPartition(Math.floor(bucket / perDay))
    partitions.push(partition)
    bucket = partition.until
  }
  return partitions
}

/** Partitions with nothing but what is past its retention. @param names of all that exist */
export function pastPartitions(names: readonly string[], nowMs: number): string[] {
  const today = Math.floor(nowMs / DAY_MS)
  return names.filter(name => {
    const endDay = partitionEnd(name)
    if (endDay === null) return false
    return endDay <= today - (name.startsWith('usage_hours') ? HOURS_KEPT_DAYS : DAYS_KEPT_DAYS)
  })
}

/** The first bucket that is kept. */
export function oldestBucket(table: CountTable, nowMs: number): number {
  const today = Math.floor(nowMs / DAY_MS)
  return table === 'usage_hours' ? (today - HOURS_KEPT_DAYS) * DAY_HOURS : today - DAYS_KEPT_DAYS
}

function createHoursPartition(day: number): Partition {
  const name = `usage_hours_${isoDate(day).replaceAll('-', '')}`
  return { name, table: 'usage_hours', from: day * DAY_HOURS, until: (day + 1) * DAY_HOURS }
}

function createDaysPartition(day: number): Partition {
  const [year, month] = [Number(isoDate(day).slice(0, 4)), Number(isoDate(day).slice(5, 7))]
  const name = `usage_days_${isoDate(day).slice(0, 7).replace('-', '')}`
  return { name, table: 'usage_days', from: dayNumber(year, month - 1, 1), until: dayNumber(year, month, 1) }
}

/** The day after the last of a partition; null for a table with another name. */
function partitionEnd(name: string): number | null {
  const [, year, month, day] = /^usage_(?:hours|days)_(\d{4})(\d\d)(\d\d)?$/.exec(name) ?? []
  if (year === undefined) return null
  if (day === undefined) return dayNumber(Number(year), Number(month), 1)
  return dayNumber(Number(year), Number(month) - 1, Number(day)) + 1
}

function isoDate(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10)
}

function dayNumber(year: number, month: number, day: number): number {
  return Date.UTC(year, month, day) / DAY_MS
}
