import type { Kysely } from 'kysely'
import type { KeyRecord } from '../../../domain/key/key-record.ts'
import { readAuditRow } from '../../platform/audit/chain.ts'
import { type AuditEntry, isLeak } from '../../platform/audit/entries.ts'
import { type AuditedDatabase, genuineRows } from '../../platform/audit/mac.ts'
import { firstAuditIdAt } from '../../platform/database/ids.ts'
import type { Tables } from '../../platform/database/tables.ts'

const HOUR_MS = 3_600_000
/** An entry that no console wrote may come first, and is left out. */
const MAX_BEFORE_ORIGIN = 20
/** More than an operation writes for one key. */
const MAX_LEAKS = 20

/** What the audit log says of a key. */
export function createKeyHistory({ reader, audit }: AuditedDatabase) {
  return {
    /** The entry of issuing the key, or of the rotation that did; null if there is none. */
    async findOrigin({ id, workspaceId, rotatedFrom, createdAtMs }: KeyRecord): Promise<AuditEntry | null> {
      const ids = rotatedFrom === null ? [id] : [id, rotatedFrom]
      const rows = await selectEntries(reader, workspaceId, createdAtMs)
        .where('key_id', 'in', ids)
        // Also where there is no such entry, not the whole audit log is read.
        .where('id', '<', firstAuditIdAt(createdAtMs + HOUR_MS))
        .orderBy('id')
        .limit(MAX_BEFORE_ORIGIN)
        .execute()
      const [first] = genuineRows(rows, audit)
      return first === undefined ? null : readAuditRow(first)
    },
    /** Entries about a key since a time, newest first. */
    async listHistory(
      { id, workspaceId }: Pick<KeyRecord, 'id' | 'workspaceId'>,
      { sinceMs, limit }: { readonly sinceMs: number; readonly limit: number },
    ): Promise<AuditEntry[]> {
      const rows = await selectEntries(reader, workspaceId, sinceMs)
        // A change of the plan of the workspace has no key, and may concern this one.
        .where(row =>
          row.or([
            row('key_id', '=', id),
            row.and([row('key_id', '=', ''), row('action', '=', 'workspace.plan_changed')]),
          ]),
        )
        .orderBy('id', 'desc')
        .limit(limit)
        .execute()
      return genuineRows(rows, audit).map(readAuditRow)
    },
    /** Entries that report the key as leaked, newest first. */
    async listLeaks(keyId: string): Promise<AuditEntry[]> {
      const rows = await reader
        .selectFrom('audit')
        .selectAll()
        .where('key_id', '=', keyId)
        .where('action', 'in', ['key.revoked', 'key.reported'])
        .orderBy('id', 'desc')
        .limit(MAX_LEAKS)
        .execute()
      return genuineRows(rows, audit).map(readAuditRow).filter(isLeak)
    },
  }
}

/** By id, which grows with time, so that the index of the workspace finds them. */
function selectEntries(database: Kysely<Tables>, workspaceId: string, sinceMs: number) {
  return database
    .selectFrom('audit')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .where('id', '>=', firstAuditIdAt(sinceMs))
}
