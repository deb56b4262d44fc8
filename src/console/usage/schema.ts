import { type RawBuilder, sql } from 'kysely'
import type { Dialect } from '../platform/database/database.ts'
import type { CreateTables } from '../platform/database/migrations.ts'

/** Counts, the last report of each gateway, and refusals. */
export const usageTables: CreateTables = (dialect, text) => [
  ...createCounts('usage_hours', text, dialect),
  ...createCounts('usage_days', text, dialect),
  sql`create table usage_gateways (gateway ${text} primary key, sequence bigint not null, seen_at_ms bigint not null)`,
  sql`create table refusals (
    workspace_id ${text} not null, at_ms bigint not null, id ${text} not null, key_id ${text} not null,
    route ${text} not null, code ${text} not null, reason ${text} not null, request_id ${text} not null,
    address ${text} not null, primary key (workspace_id, at_ms, id))`,
  sql`create index refusals_by_time on refusals (at_ms)`,
  sql`create table refusal_gaps (workspace_id ${text} primary key, at_ms bigint not null)`,
]

/**
 * The total of a workspace has an empty key id. PostgreSQL divides the table by time, so that old counts are dropped with
 * their partition; in SQLite the order of the rows is nearly that of time.
 */
function createCounts(table: string, text: RawBuilder<unknown>, dialect: Dialect): RawBuilder<unknown>[] {
  const partitions = sql.raw(dialect === 'postgres' ? 'partition by range (bucket)' : '')
  return [
    sql`create table ${sql.table(table)} (
      workspace_id ${text} not null, key_id ${text} not null, bucket integer not null, route ${text} not null,
      code ${text} not null, count bigint not null,
      primary key (workspace_id, key_id, bucket, route, code)) ${partitions}`,
    sql`create index ${sql.id(`${table}_of_workspaces`)} on ${sql.table(table)} (bucket, workspace_id)
      where key_id = ''`,
  ]
}
