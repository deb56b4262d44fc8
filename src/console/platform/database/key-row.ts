import { type RawBuilder, type SqlBool, sql } from 'kysely'
import type { KeyRecord, StoredKey } from '../../../domain/key/key-record.ts'
import { eachText } from '../../../domain/key/key-texts.ts'
import type { KeyRow } from './tables.ts'

export function readKeyRow(row: KeyRow): StoredKey {
  const record: KeyRecord = {
    id: row.id,
    workspaceId: row.workspace_id,
    name: row.name,
    ...eachText(text => row[text]),
    // Only toKeyRow() below writes this column.
    scopes: JSON.parse(row.scopes) as string[],
    hint: row.hint,
    createdAtMs: row.created_at_ms,
    createdBy: row.created_by,
    expiresAtMs: row.expires_at_ms,
    revokedAtMs: row.revoked_at_ms,
    suspendedAtMs: row.suspended_at_ms,
    // As the scopes.
    allowedCidrs: row.allowed_cidrs === null ? [] : (JSON.parse(row.allowed_cidrs) as string[]),
    plan: row.plan,
    rotatedFrom: row.rotated_from,
    replacedBy: row.replaced_by,
    version: row.version,
  }
  return { record, digest: row.digest }
}

export function toKeyRow({ record, digest }: StoredKey, changedAtMs: number): KeyRow {
  return {
    id: record.id,
    digest,
    workspace_id: record.workspaceId,
    name: record.name,
    ...eachText(text => record[text]),
    scopes: JSON.stringify(record.scopes),
    hint: record.hint,
    created_at_ms: record.createdAtMs,
    created_by: record.createdBy,
    expires_at_ms: record.expiresAtMs,
    revoked_at_ms: record.revokedAtMs,
    suspended_at_ms: record.suspendedAtMs,
    allowed_cidrs: record.allowedCidrs.length === 0 ? null : JSON.stringify(record.allowedCidrs),
    plan: record.plan,
    rotated_from: record.rotatedFrom,
    replaced_by: record.replacedBy,
    version: record.version,
    changed_at_ms: changedAtMs,
  }
}

/** Neither revoked nor expired, as a condition on columns of `keys`. */
export function isLive(nowMs: number): RawBuilder<SqlBool> {
  return sql`revoked_at_ms is null and expires_at_ms > ${nowMs}`
}
