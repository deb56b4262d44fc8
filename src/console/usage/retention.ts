import { type Kysely, sql, type Transaction } from 'kysely'
import type { Database } from '../platform/database/database.ts'
import type { Tables } from '../platform/database/tables.ts'
import { oldestBucket, type Partition, partitionsFor, pastPartitions } from './partitions.ts'
import { REFUSALS_KEPT_MS } from './refusal-rows.ts'

const TABLES = ['usage_hours', 'usage_days'] as const
const PURGED_AT_ONCE = 1000
/** A gateway that is silent for longer is another process when it reports again. */
const GATEWAYS_KEPT_MS = 2 * 86_400_000
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
  else for (const table of TABLES) while (await deleteOldest(writer, table, oldestBucket(table, nowMs))) {}
  while (await deleteOldRefusals(writer, nowMs)) {}
  await writer
    .deleteFrom('refusal_gaps')
    .where('at_ms', '<', nowMs - REFUSALS_KEPT_MS)
    .execute()
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

/**
 * Rows are stored nearly in the order of time: only the first are examined, without an index by time.
 * @returns whether there may be more
 */
async function deleteOldest(
  writer: Kysely<Tables>,
  table: Partition['table'],
  oldest: number,
): Promise<boolean> {
  const { numAffectedRows = 0n } = await sql`
    delete from ${sql.table(table)} where rowid in (
      select rowid from (select rowid, bucket from ${sql.table(table)} order by rowid limit ${PURGED_AT_ONCE})
      where bucket < ${oldest})`.execute(writer)
  return numAffectedRows === BigInt(PURGED_AT_ONCE)
}

async function deleteOldRefusals(writer: Kysely<Tables>, nowMs: number): Promise<boolean> {
  const { numAffectedRows = 0n } = await sql`
    delete from refusals where (workspace_id, at_ms, id) in (
      select workspace_id, at_ms, id from refusals where at_ms < ${nowMs - REFUSALS_KEPT_MS}
      limit ${PURGED_AT_ONCE})`.execute(writer)
  return numAffectedRows === BigInt(PURGED_AT_ONCE)
}
