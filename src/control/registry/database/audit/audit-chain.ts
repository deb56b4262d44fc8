import { hash } from 'node:crypto'
import type { Transaction } from 'kysely'
import type { Metrics } from '../../../../observability/metrics/metrics.ts'
import type { AuditEntry } from '../../operations/audit.ts'
import type { Dialect } from '../database.ts'
import type { AuditHeadRow, AuditRow, QueuedAuditRow, Tables } from '../tables.ts'

/** Rows of one statement: SQLite binds at most 32,766 values. */
const ROWS_AT_ONCE = 500
const HEAD_ID = 1
/** Distinguishes these hashes from any other use of SHA-256, and this form from a later one. */
const FORM = 'postern-audit-1'

export type ChainHead = Pick<AuditHeadRow, 'sequence' | 'hash'>
export type ChainedRow = AuditRow & { readonly sequence: number; readonly hash: string }

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

/** The hash of an entry: over its place, the hash before it, and every other column as stored. */
export function hashOf(previousHash: string, row: Omit<AuditRow, 'hash'>): string {
  const { sequence, id, workspace_id, at_ms, actor, action, key_id, detail } = row
  const fields = [FORM, previousHash, sequence, id, workspace_id, at_ms, actor, action, key_id, detail]
  return hash('sha256', JSON.stringify(fields))
}

/** Continues the chain after `head`. */
export function chainRows(head: ChainHead, entries: readonly QueuedAuditRow[]): ChainedRow[] {
  let { sequence, hash: previousHash } = head
  return entries.map(entry => {
    sequence += 1
    const row = { ...entry, sequence }
    previousHash = hashOf(previousHash, row)
    return { ...row, hash: previousHash }
  })
}

export function auditRowOf(entry: AuditEntry): QueuedAuditRow {
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
  dialect: Dialect,
): Promise<void> {
  if (entries.length === 0) return
  try {
    await appendAfter(tx, await lockHead(tx, dialect), entries.map(auditRowOf), dialect)
  } catch (error) {
    throw new AuditWriteError(error)
  }
}

/** @param head as locked by this transaction */
export async function appendAfter(
  tx: Transaction<Tables>,
  head: ChainHead,
  entries: readonly QueuedAuditRow[],
  dialect: Dialect,
): Promise<void> {
  const rows = chainRows(head, entries)
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
