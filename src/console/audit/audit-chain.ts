import { hash } from 'node:crypto'
import type { Transaction } from 'kysely'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import type { Database, Dialect } from '../platform/database/database.ts'
import type { AuditFields, AuditHeadRow, AuditRow, Tables } from '../platform/database/tables.ts'
import type { AuditEntry } from './audit.ts'
import { type AuditKeys, fieldsOf, signChained } from './audit-mac.ts'

/** Rows of one statement: SQLite binds at most 32,766 values. */
const ROWS_AT_ONCE = 500
const HEAD_ID = 1
/** Distinguishes these hashes from any other use of SHA-256, and this form from a later one. */
const FORM = 'postern-audit-1'

export type ChainHead = Pick<AuditHeadRow, 'sequence' | 'hash'>
export type ChainedRow = AuditRow & { readonly sequence: number; readonly hash: string }

/** A database, as far as its audit log needs it. */
export type AuditTarget = Pick<Database, 'dialect' | 'audit'>

export const CHAIN_START: ChainHead = { sequence: 0, hash: '0'.repeat(64) }

/** Neither the change nor its audit entry was confirmed: both are one transaction. */
export class AuditWriteError extends Error {
  constructor(cause: unknown) {
    super('A change and its audit entry could not be written', { cause })
  }
}

/** Runs a transaction that writes an audit entry. @throws AuditWriteError for any failure: the outcome is unknown */
export async function audited<Result>(
  { auditWriteFailures }: Pick<Metrics, 'auditWriteFailures'>,
  run: () => Promise<Result>,
): Promise<Result> {
  try {
    return await run()
  } catch (error) {
    auditWriteFailures.inc()
    throw error instanceof AuditWriteError ? error : new AuditWriteError(error)
  }
}

/**
 * The hash of an entry: over its place, the hash before it, and all that it says. It needs no secret, so that it stays the
 * same when the entry is signed again with another one.
 */
export function hashOf(previousHash: string, row: AuditFields & Pick<AuditRow, 'sequence'>): string {
  return hash('sha256', JSON.stringify([FORM, previousHash, row.sequence, ...fieldsOf(row)]))
}

/** Continues the chain after `head`, and signs each entry at its place. */
export function chainRows(head: ChainHead, entries: readonly AuditFields[], keys: AuditKeys): ChainedRow[] {
  let { sequence, hash: previousHash } = head
  return entries.map(entry => {
    sequence += 1
    previousHash = hashOf(previousHash, { ...entry, sequence })
    const row = { ...entry, sequence, hash: previousHash }
    return { ...row, ...signChained(keys, row) }
  })
}

export function auditRowOf(entry: AuditEntry): AuditFields {
  return {
    id: entry.id,
    workspace_id: entry.workspaceId ?? '',
    at_ms: entry.atMs,
    actor: entry.actor,
    action: entry.action,
    key_id: entry.keyId ?? '',
    detail: JSON.stringify(entry.detail),
  }
}

/**
 * Appends entries to the chain. Other changes that write audit entries wait until this transaction ends: call it last.
 * @throws AuditWriteError
 */
export async function appendAudit(
  tx: Transaction<Tables>,
  entries: readonly AuditEntry[],
  target: AuditTarget,
): Promise<void> {
  if (entries.length === 0) return
  try {
    await appendAfter(tx, await lockHead(tx, target.dialect), entries.map(auditRowOf), target)
  } catch (error) {
    throw new AuditWriteError(error)
  }
}

/** @param head as locked by this transaction */
export async function appendAfter(
  tx: Transaction<Tables>,
  head: ChainHead,
  entries: readonly AuditFields[],
  { dialect, audit }: AuditTarget,
): Promise<void> {
  const rows = chainRows(head, entries, audit.keys)
  const lastStart = Math.floor((rows.length - 1) / ROWS_AT_ONCE) * ROWS_AT_ONCE
  for (let from = 0; from < lastStart; from += ROWS_AT_ONCE) {
    const part = rows.slice(from, from + ROWS_AT_ONCE)
    await tx.insertInto('audit').values(part).execute()
  }
  await insertLast(tx, rows.slice(lastStart), dialect)
}

/** Moves the head too. On PostgreSQL it is one statement: a round trip less while other changes wait. */
async function insertLast(
  tx: Transaction<Tables>,
  rows: readonly ChainedRow[],
  dialect: Dialect,
): Promise<void> {
  const last = rows.at(-1)
  if (last === undefined) return
  const { sequence, hash: newest } = last
  const moveHead = (database: Pick<Transaction<Tables>, 'updateTable'>) =>
    database.updateTable('audit_head').set({ sequence, hash: newest }).where('id', '=', HEAD_ID)
  if (dialect === 'postgres') {
    await tx
      .with('head', database => moveHead(database))
      .insertInto('audit')
      .values(rows)
      .execute()
    return
  }
  await tx.insertInto('audit').values(rows).execute()
  await moveHead(tx).execute()
}

/** SQLite runs one writing transaction at a time and needs no lock. */
export async function lockHead(tx: Transaction<Tables>, dialect: Dialect): Promise<ChainHead> {
  const query = tx.selectFrom('audit_head').select(['sequence', 'hash']).where('id', '=', HEAD_ID)
  return (dialect === 'postgres' ? query.forUpdate() : query).executeTakeFirstOrThrow()
}
