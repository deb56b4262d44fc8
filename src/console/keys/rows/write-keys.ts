import { type RawBuilder, sql, type Transaction } from 'kysely'
import type { StoredKey } from '../../../domain/key/key-record.ts'
import { enqueueChanges, type PendingChange } from '../../announcing/index.ts'
import type { AuditQueue } from '../../platform/audit/chain.ts'
import type { AuditEntry } from '../../platform/audit/entries.ts'
import type { Dialect } from '../../platform/database/database.ts'
import { toKeyRow } from '../../platform/database/key-row.ts'
import type { KeyRow, Tables } from '../../platform/database/tables.ts'
import { insertEvents, type WebhookEvent } from '../../webhooks/index.ts'

/** A query for the keys with these ids, in their order, in which every writer locks them. SQLite runs one transaction at a time. */
export function lockKeys(tx: Transaction<Tables>, ids: readonly string[], dialect: Dialect) {
  const query = tx.selectFrom('keys').where('id', 'in', ids).orderBy('id')
  return dialect === 'postgres' ? query.forUpdate() : query
}

interface Replacing {
  readonly nowMs: number
  readonly dialect: Dialect
  /** The rows of the keys, in the same order, where the caller has read them: a column that stays as it is in all costs no write of its indexes. */
  readonly before?: readonly KeyRow[]
}

/** Writes the next version of each. @param keys locked, and of the version before */
export async function replaceKeys(
  tx: Transaction<Tables>,
  keys: readonly StoredKey[],
  { nowMs, dialect, before }: Replacing,
): Promise<void> {
  const rows = keys.map(key => toKeyRow(key, nowMs))
  const [first] = rows
  if (first === undefined) return
  const isChanged = (column: keyof KeyRow) =>
    before === undefined || rows.some((row, index) => row[column] !== before[index]?.[column])
  // Object.keys() forgets the type of names.
  const columns = (Object.keys(first) as (keyof KeyRow)[]).filter(
    column => column !== 'id' && isChanged(column),
  )
  const assignments = columns.map(column => sql`${sql.id(column)} = given.${sql.id(column)}`)
  await sql`
    update keys set ${sql.join(assignments)} from ${givenRows(rows, ['id', ...columns], dialect)}
    where keys.id = given.id`.execute(tx)
}

/** The rows as `given`: one parameter, however many they are. */
function givenRows(
  rows: readonly KeyRow[],
  columns: readonly string[],
  dialect: Dialect,
): RawBuilder<unknown> {
  const list = JSON.stringify(rows, [...columns])
  if (dialect === 'postgres') return sql`json_populate_recordset(null::keys, ${list}::json) as given`
  const values = columns.map(column => sql`value ->> ${sql.lit(column)} as ${sql.id(column)}`)
  return sql`(select ${sql.join(values)} from json_each(${list})) as given`
}

interface Effects {
  /** Of each key. */
  readonly pending: readonly PendingChange[]
  readonly events: readonly WebhookEvent[]
  readonly audit: readonly AuditEntry[]
}

/**
 * Writes what belongs to a change of keys in its transaction: webhook events, a place in each outbox, audit entries. Call it last:
 * appending to the audit log makes other changes wait for the commit.
 */
export async function writeEffects(
  tx: Transaction<Tables>,
  { pending, events, audit }: Effects,
  appendEntries: AuditQueue['add'],
): Promise<void> {
  await insertEvents(tx, events)
  await enqueueChanges(tx, pending)
  await appendEntries(tx, audit)
}
