import type { Transaction } from 'kysely'
import { enqueueChanges } from '../../announcing/rows/outbox-rows.ts'
import { type AuditTarget, AuditWriteError, appendAudit } from '../../platform/audit/chain.ts'
import type { ChangeWriter } from '../../platform/database/change-writer.ts'
import type { Tables } from '../../platform/database/tables.ts'
import { insertEvents } from '../../platform/jobs/delivery-rows.ts'
import type { ImportedKeys, KeyImport } from './key-repository.ts'
import { rowOf } from './key-rows.ts'

/** Rows of one statement: SQLite binds at most 32,766 values. */
const ROWS_AT_ONCE = 500

/** Inserts the keys whose digests do not exist, with all that belongs to them: all or nothing. */
export async function importKeys(
  writer: ChangeWriter,
  keys: KeyImport,
  { now, ...target }: AuditTarget & { now: () => number },
): Promise<ImportedKeys> {
  try {
    return await writer.run(tx => write(tx, keys, now(), target))
  } catch (error) {
    // The audit entries are part of the transaction: neither was written.
    throw error instanceof AuditWriteError ? error : new AuditWriteError(error)
  }
}

async function write(
  tx: Transaction<Tables>,
  { keys, recordOf }: KeyImport,
  nowMs: number,
  target: AuditTarget,
): Promise<ImportedKeys> {
  // Of two imports at once, one waits for the digests of the other: in one order, so that neither waits for the other.
  const sorted = keys.toSorted((a, b) => (a.digest < b.digest ? -1 : 1))
  const inserted = new Set<string>()
  for (let from = 0; from < sorted.length; from += ROWS_AT_ONCE) {
    const rows = sorted.slice(from, from + ROWS_AT_ONCE).map(key => rowOf(key, nowMs))
    const query = tx.insertInto('keys').values(rows)
    const added = await query
      .onConflict(conflict => conflict.column('digest').doNothing())
      .returning('digest')
      .execute()
    for (const { digest } of added) inserted.add(digest)
  }
  const imported = keys.filter(({ digest }) => inserted.has(digest))
  const records = imported.map(recordOf)
  await insertEvents(
    tx,
    records.flatMap(({ events }) => events),
  )
  const pending = await enqueueChanges(tx, imported, nowMs)
  const audit = records.map(record => record.audit)
  await appendAudit(tx, audit, target)
  return { keys: imported, pending }
}
