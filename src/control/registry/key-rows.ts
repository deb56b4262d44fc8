import type { KeyRecord } from '../../domain/key-record.ts'
import type { StoredKey } from './key-repository.ts'
import type { KeyRow } from './tables.ts'

export function keyOfRow(row: KeyRow): StoredKey {
  const record: KeyRecord = {
    id: row.id,
    workspaceId: row.workspace_id,
    name: row.name,
    // Only rowOf() below writes this column.
    scopes: JSON.parse(row.scopes) as string[],
    hint: row.hint,
    createdAtMs: row.created_at_ms,
    createdBy: row.created_by,
    expiresAtMs: row.expires_at_ms,
    revokedAtMs: row.revoked_at_ms,
    rotatedFrom: row.rotated_from,
    replacedBy: row.replaced_by,
    version: row.version,
  }
  return { record, digest: row.digest }
}

export function rowOf({ record, digest }: StoredKey): KeyRow {
  return {
    id: record.id,
    digest,
    workspace_id: record.workspaceId,
    name: record.name,
    scopes: JSON.stringify(record.scopes),
    hint: record.hint,
    created_at_ms: record.createdAtMs,
    created_by: record.createdBy,
    expires_at_ms: record.expiresAtMs,
    revoked_at_ms: record.revokedAtMs,
    rotated_from: record.rotatedFrom,
    replaced_by: record.replacedBy,
    version: record.version,
  }
}
