import { type Kysely, sql, type Transaction } from 'kysely'
import type { KeyRecord } from '../../../domain/key/key-record.ts'
import { enqueueChanges } from '../../announcing/rows/outbox-rows.ts'
import { type AuditTarget, AuditWriteError, appendAudit } from '../../platform/audit/chain.ts'
import type { ChangeWriter } from '../../platform/database/change-writer.ts'
import type { Tables } from '../../platform/database/tables.ts'
import { insertEvents } from '../../platform/jobs/delivery-rows.ts'
import type { BulkRevocation, BulkRevoked, LivePosition, LiveRange } from './key-repository.ts'
import { keyOfRow } from './key-rows.ts'

/** The newest key of a workspace, in any state. */
export async function newestKeyId(database: Kysely<Tables>, workspaceId: string): Promise<string | null> {
  const query = database.selectFrom('keys').select('id').where('workspace_id', '=', workspaceId)
  return (await query.orderBy('id', 'desc').limit(1).executeTakeFirst())?.id ?? null
}

/** Neither revoked nor expired, in the order of the index that holds both: those that expire first come first. */
export async function listLive(
  database: Kysely<Tables>,
  { workspaceId, after, untilId, limit }: LiveRange,
  nowMs: number,
): Promise<LivePosition[]> {
  const start = after ?? { expiresAtMs: nowMs + 1, id: '' }
  const { rows } = await sql<{ id: string; expires_at_ms: number }>`
    select id, expires_at_ms from keys
    where workspace_id = ${workspaceId} and (expires_at_ms, id) > (${start.expiresAtMs}, ${start.id})
      and expires_at_ms > ${nowMs} and id <= ${untilId} and revoked_at_ms is null
    order by expires_at_ms, id limit ${limit}`.execute(database)
  return rows.map(({ id, expires_at_ms }) => ({ id, expiresAtMs: expires_at_ms }))
}

/** The effect of `planRevocation` on many keys, with all that belongs to it: all or nothing. */
export async function revokeKeys(
  writer: ChangeWriter,
  revocation: BulkRevocation,
  { now, ...target }: AuditTarget & { now: () => number },
): Promise<BulkRevoked> {
  try {
    return await writer.run(tx => write(tx, revocation, now(), target))
  } catch (error) {
    // The audit entries are part of the transaction: neither was written.
    throw error instanceof AuditWriteError ? error : new AuditWriteError(error)
  }
}

/** Locks in the order of every other writer: keys, in one order, then the audit log. */
async function write(
  tx: Transaction<Tables>,
  { ids, recordOf }: BulkRevocation,
  nowMs: number,
  target: AuditTarget,
): Promise<BulkRevoked> {
  if (target.dialect === 'postgres') {
    await tx.selectFrom('keys').select('id').where('id', 'in', ids).orderBy('id').forUpdate().execute()
  }
  const rows = await tx
    .updateTable('keys')
    .set(row => ({
      revoked_at_ms: nowMs,
      suspended_at_ms: null satisfies KeyRecord['suspendedAtMs'],
      version: row('version', '+', 1),
      changed_at_ms: nowMs,
    }))
    .where('id', 'in', ids)
    .where('revoked_at_ms', 'is', null)
    .where('expires_at_ms', '>', nowMs)
    .returningAll()
    .execute()
  const keys = rows.map(keyOfRow).sort((a, b) => (a.record.id < b.record.id ? -1 : 1))
  const records = keys.map(recordOf)
  await insertEvents(
    tx,
    records.flatMap(({ events }) => events),
  )
  const pending = await enqueueChanges(tx, keys, nowMs)
  const audit = records.map(record => record.audit)
  await appendAudit(tx, audit, target)
  return { keys, pending }
}
