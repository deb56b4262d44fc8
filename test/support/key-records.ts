import { BLANK_FIELDS } from '../../src/domain/key/key-fields.ts'
import type { KeyGrant, KeyRecord } from '../../src/domain/key/key-record.ts'
import { digestKey } from '../../src/domain/key/secret.ts'
import { deriveRecordKey } from '../../src/domain/wire.ts'
import { SIGNING_SECRET } from './signing-secret.ts'

export { SIGNING_SECRET }
export const RECORD_KEY = deriveRecordKey(SIGNING_SECRET)
export const OTHER_RECORD_KEY = deriveRecordKey(Buffer.alloc(32, 8))

export function digestNo(number: number): string {
  return digestKey(`test key ${number}`)
}

export function recordOf(changes: Partial<KeyRecord> = {}): KeyRecord {
  return {
    ...BLANK_FIELDS,
    id: 'key_01JD0000000000000000000000',
    workspaceId: 'ws_1',
    name: 'test key',
    scopes: ['files:read', 'workspace:read'],
    hint: 'wsk_…x7Qf',
    createdAtMs: Date.parse('2026-11-01T00:00:00Z'),
    createdBy: 'test',
    expiresAtMs: Date.parse('2027-02-01T00:00:00Z'),
    revokedAtMs: null,
    suspendedAtMs: null,
    rotatedFrom: null,
    replacedBy: null,
    version: 1,
    ...changes,
  }
}

export function grantOf(changes: Partial<KeyRecord> = {}): KeyGrant {
  return toGrant(recordOf(changes))
}

/** What a gateway stores of a record. */
export function toGrant({
  id,
  workspaceId,
  scopes,
  hint,
  expiresAtMs,
  revokedAtMs,
  suspendedAtMs,
  allowedCidrs,
  plan,
  version,
}: KeyRecord): KeyGrant {
  const restrictions = { revokedAtMs, suspendedAtMs, allowedCidrs, plan }
  return { id, workspaceId, scopes, hint, expiresAtMs, ...restrictions, version }
}
