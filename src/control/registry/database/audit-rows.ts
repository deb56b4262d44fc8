import type { Kysely, Transaction } from 'kysely'
import type { AuditAction, AuditDetail, AuditEntry, AuditPage } from '../operations/audit.ts'
import type { PageOptions } from './key-repository.ts'
import type { AuditRow, Tables } from './tables.ts'

/** Neither the change nor its audit entry was confirmed: both are one transaction. */
export class AuditWriteError extends Error {
  constructor(cause: unknown) {
    super('A change and its audit entry could not be written', { cause })
  }
}

export async function appendAudit(tx: Transaction<Tables>, entries: readonly AuditEntry[]): Promise<void> {
  if (entries.length === 0) return
  const rows = entries.map(
    (entry): AuditRow => ({
      id: entry.id,
      workspace_id: entry.workspaceId,
      at_ms: entry.atMs,
      actor: entry.actor,
      action: entry.action,
      key_id: entry.keyId,
      detail: JSON.stringify(entry.detail),
    }),
  )
  try {
    await tx.insertInto('audit').values(rows).execute()
  } catch (error) {
    throw new AuditWriteError(error)
  }
}

export async function listAudit(
  database: Kysely<Tables>,
  { workspaceId, limit, afterId }: PageOptions,
): Promise<AuditPage> {
  let query = database.selectFrom('audit').selectAll().where('workspace_id', '=', workspaceId)
  if (afterId !== null) query = query.where('id', '<', afterId)
  // One more than the limit shows whether there is a next page.
  const rows = await query
    .orderBy('id', 'desc')
    .limit(limit + 1)
    .execute()
  const entries = rows.slice(0, limit).map(entryOfRow)
  return { entries, nextAfterId: rows.length > limit ? (entries.at(-1)?.id ?? null) : null }
}

export function entryOfRow(row: AuditRow): AuditEntry {
  return {
    id: row.id,
    workspaceId: row.workspace_id,
    atMs: row.at_ms,
    actor: row.actor,
    // Only appendAudit() above writes these two columns.
    action: row.action as AuditAction,
    keyId: row.key_id,
    detail: JSON.parse(row.detail) as AuditDetail,
  }
}
