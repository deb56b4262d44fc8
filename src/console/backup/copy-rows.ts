import { type Kysely, sql, type Transaction } from 'kysely'
import type { Dialect } from '../platform/database/database.ts'
import { type ProgressOf, Refused } from '../platform/database/refused.ts'
import type { Tables } from '../platform/database/tables.ts'
import { createPartitions, partitionsCovering } from '../usage/index.ts'
import { COPIED_TABLES, type CopiedTableKey } from './copied-tables.ts'

/** SQLite binds at most 32,766 values; the widest table has 17 columns. */
const ROWS_AT_ONCE = 500
/** Tables that a migrated database fills itself. Triggers of `keys` fill `key_use`. */
const FILLED_BY_ITSELF: ReadonlySet<string> = new Set([
  'audit_head',
  'key_use',
  'regions',
  'webhook_receivers',
])

type Row = Readonly<Record<string, unknown>>

/**
 * Copies every row, column by column, in one transaction of the target. Both have the schema of this version.
 * @param from must not change meanwhile
 * @param to without rows
 * @returns the number of rows
 * @throws Refused if the target does not hold as many rows of each table in the end
 */
export async function copyRows(
  from: Kysely<Tables>,
  to: Transaction<Tables>,
  dialect: Dialect,
  progress: ProgressOf,
): Promise<number> {
  const counts = await countRows(from)
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0)
  if (dialect === 'postgres') await makePartitionsFor(from, to)
  let done = 0
  for (const table of COPIED_TABLES) {
    if (FILLED_BY_ITSELF.has(table.table)) await sql`delete from ${sql.table(table.table)}`.execute(to)
    for await (const rows of batchesOf(from, table)) {
      await insert(to, table, rows)
      done += rows.length
      progress.show(done, total)
    }
  }
  requireSame(counts, await countRows(to))
  return total
}

async function* batchesOf(from: Kysely<Tables>, { table, columns }: CopiedTableKey): AsyncGenerator<Row[]> {
  const key = sql.join(columns.map(column => sql.ref(column)))
  let after = sql``
  for (;;) {
    const { rows } = await sql<Row>`
      select * from ${sql.table(table)} ${after} order by ${key} limit ${ROWS_AT_ONCE}`.execute(from)
    if (rows.length > 0) yield rows
    const last = rows.at(-1)
    if (last === undefined || rows.length < ROWS_AT_ONCE) return
    after = sql`where (${key}) > (${sql.join(columns.map(column => last[column]))})`
  }
}

async function insert(to: Kysely<Tables>, { table }: CopiedTableKey, rows: readonly Row[]): Promise<void> {
  const columns = Object.keys(rows[0] ?? {})
  const names = sql.join(columns.map(column => sql.ref(column)))
  const values = sql.join(rows.map(row => sql`(${sql.join(columns.map(column => row[column]))})`))
  await sql`insert into ${sql.table(table)} (${names}) values ${values}`.execute(to)
}

/** By table. */
async function countRows(database: Kysely<Tables>): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>()
  for (const { table } of COPIED_TABLES) {
    const { rows } = await sql<{ count: number }>`select count(*) as count from ${sql.table(table)}`.execute(
      database,
    )
    counts.set(table, Number(rows[0]?.count))
  }
  return counts
}

function requireSame(from: ReadonlyMap<string, number>, to: ReadonlyMap<string, number>): void {
  const different = [...from].filter(([table, count]) => to.get(table) !== count)
  if (different.length === 0) return
  const counts = different.map(([table, count]) => `${table}: ${to.get(table)} of ${count} rows`)
  throw new Refused(`The copy does not match its source (${counts.join(', ')}), so it was undone. Repeat it`)
}

/** A partition for each count, also for those past their retention. */
async function makePartitionsFor(from: Kysely<Tables>, to: Transaction<Tables>): Promise<void> {
  for (const table of ['usage_hours', 'usage_days'] as const) {
    const { rows } = await sql<{ first: number | null; last: number | null }>`
      select min(bucket) as first, max(bucket) as last from ${sql.table(table)}`.execute(from)
    const { first = null, last = null } = rows[0] ?? {}
    if (first !== null && last !== null) await createPartitions(to, partitionsCovering(table, first, last))
  }
}
