import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { sql, type Transaction } from 'kysely'
import type { Database, Dialect } from '../../platform/database/database.ts'
import { rowsFrom } from '../../platform/database/query-parts.ts'
import type { RefusalRow, Tables, UsageRow } from '../../platform/database/tables.ts'
import { insertEvents, type WebhookEvent } from '../../platform/jobs/delivery-rows.ts'
import type { CheckedReport, Refusal } from './check-report.ts'
import { type FoldedReports, foldReports, REFUSALS_KEPT } from './fold-reports.ts'
import { type ReachedLimit, storeLimitUses } from './limit-uses.ts'

/** Of the whole transaction's statements: a database that is slower than this loses counts, and changes to keys go on. */
const STATEMENT_TIMEOUT_MS = 3000
const LOCK_TIMEOUT_MS = 2000
/** Of one statement: a few milliseconds in SQLite. */
const ROWS_AT_ONCE = 500

/** Makes the webhook events of limits that were nearly or wholly used up. */
export type CreateLimitEvents = (reached: readonly ReachedLimit[]) => readonly WebhookEvent[]

/**
 * Stores reports of different gateways in one transaction. The number of a gateway's last report is stored with its counts,
 * so that a repeated report counts once: at any console, also after a restart of gateway or console.
 * @returns the gateways whose report was new
 */
export function storeReports(
  { writer, dialect }: Pick<Database, 'writer' | 'dialect'>,
  reports: readonly CheckedReport[],
  nowMs: number,
  createLimitEvents: CreateLimitEvents = () => [],
): Promise<ReadonlySet<string>> {
  const store = async (tx: Transaction<Tables>) => {
    if (dialect === 'postgres') await limitTime(tx)
    const accepted = await claimSequences(tx, reports, nowMs, dialect)
    const fresh = reports.filter(({ gateway }) => accepted.has(gateway))
    const folded = foldReports(fresh)
    await addCounts(tx, 'usage_hours', folded.hours, dialect)
    await addCounts(tx, 'usage_days', folded.days, dialect)
    await addRefusals(tx, folded, nowMs)
    await insertEvents(tx, createLimitEvents(await storeLimitUses(tx, fresh, nowMs, dialect)))
    return accepted
  }
  const transaction = writer.transaction()
  return (dialect === 'postgres' ? transaction.setIsolationLevel('read committed') : transaction).execute(
    store,
  )
}

async function limitTime(tx: Transaction<Tables>): Promise<void> {
  await sql`select set_config('statement_timeout', ${String(STATEMENT_TIMEOUT_MS)}, true),
    set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, true)`.execute(tx)
}

/** One statement: of two consoles that receive the same report, one waits for the other and then sees its number. */
async function claimSequences(
  tx: Transaction<Tables>,
  reports: readonly CheckedReport[],
  nowMs: number,
  dialect: Dialect,
): Promise<ReadonlySet<string>> {
  const sorted = reports.toSorted((a, b) => (a.gateway < b.gateway ? -1 : 1))
  const columns = [
    { values: sorted.map(({ gateway }) => gateway), type: 'text' },
    { values: sorted.map(({ sequence }) => sequence), type: 'bigint' },
  ] as const
  const { rows } = await sql<{ gateway: string }>`
    insert into usage_gateways (gateway, sequence, seen_at_ms)
    select reported.c0, reported.c1, cast(${nowMs} as bigint) from ${rowsFrom(columns, dialect)} where true
    on conflict (gateway) do update set sequence = excluded.sequence, seen_at_ms = excluded.seen_at_ms
    where usage_gateways.sequence < excluded.sequence
    returning gateway`.execute(tx)
  return new Set(rows.map(row => row.gateway))
}

async function addCounts(
  tx: Transaction<Tables>,
  table: 'usage_hours' | 'usage_days',
  rows: readonly UsageRow[],
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
  rows: readonly UsageRow[],
  dialect: Dialect,
): Promise<void> {
  const columns = [
    { values: rows.map(row => row.workspace_id), type: 'text' },
    { values: rows.map(row => row.key_id), type: 'text' },
    { values: rows.map(row => row.bucket), type: 'integer' },
    { values: rows.map(row => row.route), type: 'text' },
    { values: rows.map(row => row.code), type: 'text' },
    { values: rows.map(row => row.count), type: 'bigint' },
  ] as const
  await sql`
    insert into ${sql.table(table)} (workspace_id, key_id, bucket, route, code, count)
    select c0, c1, c2, c3, c4, c5 from ${rowsFrom(columns, dialect)} where true
    on conflict (workspace_id, key_id, bucket, route, code)
    do update set count = ${sql.ref(`${table}.count`)} + excluded.count`.execute(tx)
}

/** Adds refusals, and deletes all but the last of each workspace that has new ones. */
async function addRefusals(
  tx: Transaction<Tables>,
  { refusals, omitted }: Pick<FoldedReports, 'refusals' | 'omitted'>,
  nowMs: number,
): Promise<void> {
  for (let from = 0; from < refusals.length; from += ROWS_AT_ONCE) {
    // SQLite writes in the thread of the event loop.
    await setImmediate()
    await tx
      .insertInto('refusals')
      .values(refusals.slice(from, from + ROWS_AT_ONCE).map(toRefusalRow))
      .execute()
  }
  const workspaces = [...new Set(refusals.map(refusal => refusal.workspaceId))].sort()
  for (let from = 0; from < workspaces.length; from += ROWS_AT_ONCE) {
    await keepTheLast(tx, workspaces.slice(from, from + ROWS_AT_ONCE))
  }
  for (const workspaceId of omitted) {
    await tx
      .insertInto('refusal_gaps')
      .values({ workspace_id: workspaceId, at_ms: nowMs })
      .onConflict(conflict => conflict.column('workspace_id').doUpdateSet({ at_ms: nowMs }))
      .execute()
  }
}

async function keepTheLast(tx: Transaction<Tables>, workspaces: readonly string[]): Promise<void> {
  await sql`
    delete from refusals where (workspace_id, at_ms, id) in (
      select workspace_id, at_ms, id from (
        select workspace_id, at_ms, id,
          row_number() over (partition by workspace_id order by at_ms desc, id desc) as place
        from refusals where workspace_id in (${sql.join(workspaces)})) as ranked
      where place > ${REFUSALS_KEPT})`.execute(tx)
}

function toRefusalRow(refusal: Refusal): RefusalRow {
  const { workspaceId, atMs, keyId, route, code, reason, requestId, address } = refusal
  const names = { workspace_id: workspaceId, at_ms: atMs, id: randomUUID(), key_id: keyId }
  return { ...names, route, code, reason, request_id: requestId, address }
}
