import { createHash } from 'node:crypto'
import { BLANK_FIELDS } from '../../src/domain/key/key-fields.ts'
import type { KeyRecord, StoredKey } from '../../src/domain/key/key-record.ts'

export const NOW_MS = Date.parse('2026-11-20T09:00:00Z')
const DAY_MS = 86_400_000
let made = 0

/** A new live key with the given fields. Later keys have greater ids. */
export function someKey(overrides: Partial<KeyRecord> = {}): StoredKey {
  const serial = String(++made).padStart(26, '0')
  const record: KeyRecord = {
    ...BLANK_FIELDS,
    id: `key_${serial}`,
    workspaceId: 'ws_1',
    name: 'build server',
    scopes: ['files:read', 'workspace:read'],
    hint: `wsk_…${serial.slice(-4)}`,
    createdAtMs: NOW_MS,
    createdBy: 'admin-token',
    expiresAtMs: NOW_MS + 90 * DAY_MS,
    revokedAtMs: null,
    suspendedAtMs: null,
    rotatedFrom: null,
    replacedBy: null,
    version: 1,
    ...overrides,
  }
  return { record, digest: createHash('sha256').update(record.id).digest('hex') }
}

export function revoked({ record, digest }: StoredKey, revokedAtMs = NOW_MS): StoredKey {
  return { record: { ...record, revokedAtMs, version: record.version + 1 }, digest }
}
