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
  /** All but the id, unless the caller has read the rows and knows which differ: a column that is left out costs no write of its indexes. */
  readonly columns?: readonly (keyof KeyRow)[]
}

/** Writes the next version of each. @param keys locked, and of the version before */
export async function replaceKeys(
  tx: Transaction<Tables>,
  keys: readonly StoredKey[],
  { nowMs, dialect, columns }: Replacing,
): Promise<void> {
  const rows = keys.map(key => toKeyRow(key, nowMs))
  const [first] = rows
  if (first === undefined) return
  const written = columns ?? Object.keys(first).filter(column => column !== 'id')
  const assignments = written.map(column => sql`${sql.id(column)} = given.${sql.id(column)}`)
  await sql`
    update keys set ${sql.join(assignments)} from ${givenRows(rows, ['id', ...written], dialect)}
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
  /** As changed. */
  readonly keys: readonly StoredKey[]
  readonly events: readonly WebhookEvent[]
  readonly audit: readonly AuditEntry[]
  readonly nowMs: number
}

/**
 * Writes what belongs to a change of keys in its transaction: webhook events, a place in each outbox, audit entries. Call it last:
 * appending to the audit log makes other changes wait for the commit.
 * @returns a pending change for each key, in the same order
 */
export async function writeEffects(
  tx: Transaction<Tables>,
  { keys, events, audit, nowMs }: Effects,
  appendEntries: AuditQueue['add'],
): Promise<PendingChange[]> {
  await insertEvents(tx, events)
  const pending = keys.map(({ digest, record }) => ({ digest, version: record.version, atMs: nowMs }))
  await enqueueChanges(tx, pending)
  await appendEntries(tx, audit)
  return pending
}
