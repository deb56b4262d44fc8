import type { Kysely, Transaction } from 'kysely'
import type { KeyRecord } from '../../../domain/key/key-record.ts'
import { insertEvents } from '../../webhooks/delivery-rows.ts'
import type { WebhookEvent } from '../../webhooks/webhook-event.ts'
import type { AuditEntry } from '../operations/audit.ts'
import { AuditWriteError, appendAudit } from './audit-rows.ts'
import type { ChangeWriter } from './change-writer.ts'
import type { Dialect } from './database.ts'
import type { PendingChange, StoredKey } from './key-repository.ts'
import { keyOfRow } from './key-rows.ts'
import { enqueueChanges } from './outbox-rows.ts'
import type { Tables } from './tables.ts'

/** Keys to revoke in one transaction. */
export interface BulkRevocation {
  readonly ids: readonly string[]
  /** What belongs to the revocation of one key. @param record the key as revoked */
  readonly recordOf: (key: StoredKey) => {
    readonly audit: AuditEntry
    readonly events: readonly WebhookEvent[]
  }
}

export interface BulkRevoked {
  /** In the order of their ids, without those that had ended meanwhile. */
  readonly keys: readonly StoredKey[]
  /** One for each key, in the same order. */
  readonly pending: readonly PendingChange[]
}

/** Where to look for keys of a workspace that have not ended, by id. */
export interface LiveRange {
  readonly workspaceId: string
  readonly afterId: string | null
  /** Inclusive. */
  readonly untilId: string
  readonly limit: number
}

/** The newest key of a workspace, in any state. */
export async function newestKeyId(database: Kysely<Tables>, workspaceId: string): Promise<string | null> {
  const query = database.selectFrom('keys').select('id').where('workspace_id', '=', workspaceId)
  return (await query.orderBy('id', 'desc').limit(1).executeTakeFirst())?.id ?? null
}

/** Neither revoked nor expired, oldest first. */
export async function listLiveIds(
  database: Kysely<Tables>,
  { workspaceId, afterId, untilId, limit }: LiveRange,
  nowMs: number,
): Promise<string[]> {
  let query = database
    .selectFrom('keys')
    .select('id')
    .where('workspace_id', '=', workspaceId)
    .where('id', '<=', untilId)
    .where('revoked_at_ms', 'is', null)
    .where('expires_at_ms', '>', nowMs)
  if (afterId !== null) query = query.where('id', '>', afterId)
  return (await query.orderBy('id').limit(limit).execute()).map(row => row.id)
}

/** The effect of `planRevocation` on many keys, with all that belongs to it: all or nothing. */
export async function revokeKeys(
  writer: ChangeWriter,
  revocation: BulkRevocation,
  { now, dialect }: { now: () => number; dialect: Dialect },
): Promise<BulkRevoked> {
  try {
    return await writer.run(tx => write(tx, revocation, now(), dialect))
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
  dialect: Dialect,
): Promise<BulkRevoked> {
  if (dialect === 'postgres') {
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
  for (const { events } of records) await insertEvents(tx, events)
  const pending = await enqueueChanges(tx, keys, nowMs)
  const audit = records.map(record => record.audit)
  await appendAudit(tx, audit)
  return { keys, pending }
}
