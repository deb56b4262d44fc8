import { describe, expect, test } from 'vitest'
import { BLANK_FIELDS } from '../../../src/domain/key/key-fields.ts'
import { type ImportEntry, planImport } from '../../../src/domain/key/key-life.ts'
import { keyState } from '../../../src/domain/key/key-record.ts'
import { digestKey, mintSecret } from '../../../src/domain/key/secret.ts'
import { SIGNING_KEY } from '../examples.ts'

const NOW_MS = Date.parse('2026-11-20T09:00:00Z')
const DAY_MS = 86_400_000
const KEY = 'key-of-another-system'
const entry: ImportEntry = {
  digest: digestKey(KEY),
  hint: '…stem',
  workspaceId: 'ws_1',
  name: 'build server',
  scopes: ['workspace:read', 'files:read', 'files:read'],
  expiresAt: '2027-01-01T00:00:00Z',
}
const context = {
  id: 'key_01',
  keyPrefix: 'wsk_',
  knownPlans: ['business', 'free'],
  workspacePlan: null,
  createdBy: 'admin-token',
  knownScopes: ['workspace:read', 'files:read'],
  nowMs: NOW_MS,
}
const plan = (change: Partial<ImportEntry> = {}) => planImport({ ...entry, ...change }, context)
const at = (ms: number) => new Date(NOW_MS + ms).toISOString()

describe('an imported key', () => {
  test('keeps what the other system says of it, and is active', () => {
    expect(plan({ description: 'for builds', allowedCidrs: ['192.0.2.1'] })).toEqual({
      ok: true,
      value: {
        ...BLANK_FIELDS,
        id: 'key_01',
        workspaceId: 'ws_1',
        name: 'build server',
        description: 'for builds',
        allowedCidrs: ['192.0.2.1/32'],
        scopes: ['files:read', 'workspace:read'],
        hint: '…stem',
        createdAtMs: NOW_MS,
        createdBy: 'admin-token',
        expiresAtMs: Date.parse('2027-01-01T00:00:00Z'),
        revokedAtMs: null,
        suspendedAtMs: null,
        rotatedFrom: null,
        replacedBy: null,
        version: 1,
      },
    })
  })

  test.each<[string, Partial<ImportEntry>, object]>([
    ['expired', { expiresAt: at(-DAY_MS) }, { expiresAtMs: NOW_MS - DAY_MS }],
    ['expired at the first instant', { expiresAt: '1970-01-01T00:00:00Z' }, { expiresAtMs: 0 }],
    ['expiring in 366 days', { expiresAt: at(366 * DAY_MS) }, { expiresAtMs: NOW_MS + 366 * DAY_MS }],
    ['revoked', { revokedAt: at(-1) }, { revokedAtMs: NOW_MS - 1, suspendedAtMs: null }],
    ['revoked just now', { revokedAt: at(0) }, { revokedAtMs: NOW_MS }],
    ['revoked at the first instant', { revokedAt: '1970-01-01T00:00:00Z' }, { revokedAtMs: 0 }],
    ['suspended', { suspendedAt: at(-1) }, { revokedAtMs: null, suspendedAtMs: NOW_MS - 1 }],
    ['revoked, not suspended, if both', { revokedAt: at(-1), suspendedAt: at(-2) }, { suspendedAtMs: null }],
    [
      'neither, with null',
      { revokedAt: null, suspendedAt: null },
      { revokedAtMs: null, suspendedAtMs: null },
    ],
  ])('stays %s', (_, change, value) => {
    expect(plan(change)).toMatchObject({ ok: true, value })
  })

  test('that was rotated stays retiring until its overlap ends', () => {
    const replacedBy = `key_${'0'.repeat(26)}`
    const planned = plan({ replacedBy, expiresAt: at(DAY_MS) })
    if (!planned.ok) throw new Error(planned.expected)
    expect(planned.value.replacedBy).toBe(replacedBy)
    expect(keyState(planned.value, NOW_MS + DAY_MS - 1)).toBe('retiring')
    expect(keyState(planned.value, NOW_MS + DAY_MS)).toBe('expired')
    expect(plan({ replacedBy: null })).toMatchObject({ ok: true, value: { replacedBy: null } })
  })

  test('has no description and no networks unless they are given', () => {
    expect(plan()).toMatchObject({ ok: true, value: { description: null, allowedCidrs: [] } })
  })
})

describe('an import is rejected with the wrong field and what it must be', () => {
  const signed = mintSecret('wsk_', Buffer.alloc(32, 7), SIGNING_KEY).reveal()
  test.each<[string, Partial<ImportEntry>, string, RegExp]>([
    [
      'a digest in capitals',
      { digest: digestKey(KEY).toUpperCase() },
      'digest',
      /SHA-256 digest of the whole key/,
    ],
    ['a digest that is too short', { digest: 'a'.repeat(63) }, 'digest', /64 lower-case/],
    ['text after the digest', { digest: `${digestKey(KEY)} ` }, 'digest', /64/],
    ['text before the digest', { digest: ` ${digestKey(KEY)}` }, 'digest', /64/],
    ['no workspace id', { workspaceId: '..' }, 'workspaceId', /1 to 128 characters/],
    ['an empty hint', { hint: '' }, 'hint', /1 to 64 characters that are not the key/],
    ['a hint of 65 characters', { hint: 'a'.repeat(65) }, 'hint', /1 to 64/],
    ['a hint with a line break', { hint: 'a\nb' }, 'hint', /1 to 64/],
    ['a hint with half a surrogate pair', { hint: 'a\ud800b' }, 'hint', /1 to 64/],
    ['a hint that is the key', { hint: KEY }, 'hint', /not the key/],
    ['a hint that is a signed key', { hint: signed }, 'hint', /not the key/],
    ['an empty name', { name: '' }, 'name', /1 to \d+ characters/],
    ['a name that is the key', { name: KEY }, 'name', /^a text other than the key$/],
    ['a description that is the key', { description: KEY }, 'description', /^a text other than the key$/],
    [
      'an unknown scope',
      { scopes: ['admin'] },
      'scopes',
      /^a list of at least one of files:read, workspace:read$/,
    ],
    ['no scope', { scopes: [] }, 'scopes', /at least one/],
    ['an hour that does not exist', { expiresAt: '2027-01-01T25:00:00Z' }, 'expiresAt', /at most 366 days/],
    ['no instant', { expiresAt: 'soon' }, 'expiresAt', /such as 2027-02-18T09:00:00Z, at most 366 days/],
    ['an expiry before 1970', { expiresAt: '1969-12-31T23:59:59Z' }, 'expiresAt', /at most 366 days/],
    ['an expiry after 366 days', { expiresAt: at(366 * DAY_MS + 1) }, 'expiresAt', /at most 366 days/],
    [
      'a revocation in the future',
      { revokedAt: at(1) },
      'revokedAt',
      /null or an instant .*not in the future/,
    ],
    ['a revocation before 1970', { revokedAt: '1969-12-31T23:59:59Z' }, 'revokedAt', /not in the future/],
    ['a revocation at no instant', { revokedAt: 'yes' }, 'revokedAt', /not in the future/],
    ['a suspension in the future', { suspendedAt: at(1) }, 'suspendedAt', /not in the future/],
  ])('%s', (_, change, field, expected) => {
    expect(plan(change)).toEqual({ ok: false, field, expected: expect.stringMatching(expected) })
  })

  test('hints of 1 and of 64 characters are accepted', () => {
    expect(plan({ hint: 'é' })).toMatchObject({ ok: true })
    expect(plan({ hint: 'a'.repeat(64) })).toMatchObject({ ok: true })
  })
})
