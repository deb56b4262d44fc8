import type { Kysely } from 'kysely'
import { encodeTime } from 'ulid'
import type { KeyRecord } from '../../../domain/key/key-record.ts'
import { readAuditRow } from '../../platform/audit/chain.ts'
import { type AuditEntry, isLeak } from '../../platform/audit/entries.ts'
import { type AuditTrust, genuineRows } from '../../platform/audit/mac.ts'
import type { Tables } from '../../platform/database/tables.ts'

export interface HistorySpan {
  readonly sinceMs: number
  readonly limit: number
}

const ULID_TIME_LENGTH = 10
const HOUR_MS = 3_600_000
/** An entry that no console wrote may come first, and is left out. */
const MAX_BEFORE_ORIGIN = 20

/** The entry of issuing the key, or of the rotation that did; null if there is none. */
export async function findOrigin(
  database: Kysely<Tables>,
  { id, workspaceId, rotatedFrom, createdAtMs }: KeyRecord,
  audit: AuditTrust,
): Promise<AuditEntry | null> {
  const ids = rotatedFrom === null ? [id] : [id, rotatedFrom]
  const rows = await selectEntries(database, workspaceId, createdAtMs)
    .where('key_id', 'in', ids)
    // Also where there is no such entry, not the whole audit log is read.
    .where('id', '<', firstIdAt(createdAtMs + HOUR_MS))
    .orderBy('id')
    .limit(MAX_BEFORE_ORIGIN)
    .execute()
  const [first] = genuineRows(rows, audit)
  return first === undefined ? null : readAuditRow(first)
}

/** Entries about a key since a time, newest first. */
export async function listHistory(
  database: Kysely<Tables>,
  { id, workspaceId }: Pick<KeyRecord, 'id' | 'workspaceId'>,
  { sinceMs, limit }: HistorySpan,
  audit: AuditTrust,
): Promise<AuditEntry[]> {
  const rows = await selectEntries(database, workspaceId, sinceMs)
    .where('key_id', '=', id)
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
  return genuineRows(rows, audit).map(readAuditRow)
}

/** More than an operation writes for one key. */
const MAX_LEAKS = 20

/** Entries that report the key as leaked, newest first. */
export async function listLeaks(
  database: Kysely<Tables>,
  keyId: string,
  audit: AuditTrust,
): Promise<AuditEntry[]> {
  const rows = await database
    .selectFrom('audit')
    .selectAll()
    .where('key_id', '=', keyId)
    .where('action', 'in', ['key.revoked', 'key.reported'])
    .orderBy('id', 'desc')
    .limit(MAX_LEAKS)
    .execute()
  return genuineRows(rows, audit).map(readAuditRow).filter(isLeak)
}

/** By id, which grows with time, so that the index of the workspace finds them. */
function selectEntries(database: Kysely<Tables>, workspaceId: string, sinceMs: number) {
  return database
    .selectFrom('audit')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .where('id', '>=', firstIdAt(sinceMs))
}

function firstIdAt(ms: number): string {
  return `audit_${encodeTime(Math.max(0, ms), ULID_TIME_LENGTH)}`
}
