import { type RawBuilder, type SqlBool, sql } from 'kysely'
import type { KeyRecord, KeyState, StoredKey } from '../../../domain/key/key-record.ts'
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

/** The states of `keyState` in the same form. An `expiring` key is active, and expires by `soonMs`. */
export function isInState(
  state: KeyState | 'expiring',
  { nowMs, soonMs }: { readonly nowMs: number; readonly soonMs: number },
): RawBuilder<SqlBool> {
  const works = sql`${isLive(nowMs)} and suspended_at_ms is null`
  switch (state) {
    case 'revoked':
      return sql`revoked_at_ms is not null`
    case 'expired':
      return sql`revoked_at_ms is null and expires_at_ms <= ${nowMs}`
    case 'suspended':
      return sql`${isLive(nowMs)} and suspended_at_ms is not null`
    case 'retiring':
      return sql`${works} and replaced_by is not null`
    case 'active':
      return sql`${works} and replaced_by is null`
    case 'expiring':
      return sql`${works} and replaced_by is null and expires_at_ms <= ${soonMs}`
  }
}
