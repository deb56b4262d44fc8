import { expect, test } from 'vitest'
import {
  auditEdit,
  auditImport,
  auditIssue,
  auditLeak,
  auditResumption,
  auditRevocation,
  auditRotation,
  auditSuspension,
  type KeyAuditEntry,
} from '../../../src/console/platform/audit/entries.ts'
import {
  configuredReceivers,
  createChangeEvents,
  createExpiryEvent,
  createTestEvent,
} from '../../../src/console/webhooks/events.ts'
import type { KeyRecord } from '../../../src/domain/key/key-record.ts'
import { eachText } from '../../../src/domain/key/key-texts.ts'
import { consoleConfig } from '../../support/console.ts'
import { NOW_MS, someKey } from '../../support/stored-keys.ts'

const AT = '2026-11-20T09:00:00.000Z'
const context = {
  id: 'audit_1',
  atMs: NOW_MS,
  caller: { actor: 'person:ada', address: '192.0.2.1', requestId: 'r' },
}
const { record } = someKey({ id: 'key_a', name: 'a', hint: 'wsk_…abcd', scopes: ['files:read'] })
const { record: next } = someKey({ id: 'key_b', name: 'a', hint: 'wsk_…efgh', scopes: ['files:read'] })
const ended = { ...record, revokedAtMs: NOW_MS, version: 2 }
const finding = { foundAt: 'https://example.com/', source: null }

/** Of a key in an event, as in the admin API. */
const json = (key: KeyRecord, state: string) => ({
  ...{
    id: key.id,
    workspaceId: 'ws_1',
    name: 'a',
    ...eachText(() => null),
    scopes: ['files:read'],
    hint: key.hint,
  },
  ...{ createdAt: AT, createdBy: 'admin-token', expiresAt: '2027-02-18T09:00:00.000Z', allowedCidrs: [] },
  plan: null,
  ...{ revokedAt: key.revokedAtMs === null ? null : AT, suspendedAt: key.suspendedAtMs === null ? null : AT },
  ...{ rotatedFrom: key.rotatedFrom, replacedBy: key.replacedBy, version: key.version, state },
})

const change = (entry: KeyAuditEntry, about: KeyRecord, replaced: KeyRecord | null = null) => ({
  audit: [entry],
  record: about,
  issued: replaced === null ? null : { record: next },
  replaced: replaced === null ? null : { record: replaced },
})
const old = { ...record, replacedBy: next.id, version: 2 }
const suspended = { ...record, suspendedAtMs: NOW_MS, version: 2 }

test.each<[string, ReturnType<typeof change>, object]>([
  ['key.issued', change(auditIssue(record, context), record), { key: json(record, 'active') }],
  ['key.imported', change(auditImport(record, context), record), { key: json(record, 'active') }],
  [
    'key.suspended',
    change(auditSuspension(suspended, context), suspended),
    { key: json(suspended, 'suspended') },
  ],
  ['key.resumed', change(auditResumption(record, context), record), { key: json(record, 'active') }],
  [
    'key.edited',
    change(auditEdit({ ...record, description: 'x' }, record, ['description'], context), record),
    { key: json(record, 'active'), changes: { description: { old: 'x', new: null } } },
  ],
  [
    'key.rotated',
    change(auditRotation({ replaced: old, successor: next, overlapSeconds: 60 }, context), old, old),
    { key: json(old, 'retiring'), successor: json(next, 'active') },
  ],
  ...(['request', 'rotation', 'bulk', 'restore'] as const).map(
    reason =>
      [
        'key.revoked',
        change(auditRevocation(ended, reason, context), ended),
        { key: json(ended, 'revoked'), reason },
      ] as [string, ReturnType<typeof change>, object],
  ),
  [
    'key.revoked',
    change(auditLeak('key.revoked', ended, finding, context), ended),
    { key: json(ended, 'revoked'), reason: 'leak', foundAt: finding.foundAt },
  ],
  [
    'key.reported',
    change(auditLeak('key.reported', record, finding, context), record),
    { key: json(record, 'active'), reason: 'leak', foundAt: finding.foundAt },
  ],
])(
  'the event %s holds the key without its digest, who changed it, and what was changed',
  (type, changed, data) => {
    const [event, ...more] = createChangeEvents(changed, ['operator'])
    const { body, ...rest } = event ?? { body: '{}' }
    const about = { workspaceId: 'ws_1', keyId: record.id, type, atMs: NOW_MS }
    expect([rest, more]).toEqual([
      { ...about, receiver: 'operator', id: 'msg_1', deduplicationKey: 'audit_1' },
      [],
    ])
    const { key, ...others } = data as { key: object }
    expect(JSON.parse(body)).toEqual({ type, timestamp: AT, data: { key, actor: 'person:ada', ...others } })
  },
)

test('each receiver has its own event of each audit entry, and a change of nothing has none', () => {
  const rotated = auditRotation({ replaced: old, successor: next, overlapSeconds: 0 }, context)
  const revoked = auditRevocation(old, 'rotation', { ...context, id: 'audit_2' })
  const both = { ...change(rotated, old, old), audit: [rotated, revoked] }
  const events = createChangeEvents(both, ['operator', 'workspace'])
  expect(events.map(({ receiver, id, type }) => [receiver, id, type])).toEqual([
    ['operator', 'msg_1', 'key.rotated'],
    ['operator', 'msg_2', 'key.revoked'],
    ['workspace', 'msg_1', 'key.rotated'],
    ['workspace', 'msg_2', 'key.revoked'],
  ])
  expect(createChangeEvents({ ...both, audit: [] }, ['operator'])).toEqual([])
  expect(createChangeEvents(both, [])).toEqual([])
})

test.each([
  [14, 'key.expiring', { withinDays: 14 }],
  [1, 'key.expiring', { withinDays: 1 }],
  [0, 'key.expired', {}],
])('the event %i days before expiry says how many are left', (days, type, more) => {
  const { body, ...rest } = createExpiryEvent(record, { id: 'msg_1', days, nowMs: NOW_MS }, 'workspace')
  const deduplicationKey = `key_a:${record.expiresAtMs}:${days}`
  const about = { workspaceId: 'ws_1', keyId: 'key_a', receiver: 'workspace', id: 'msg_1', atMs: NOW_MS }
  expect(rest).toEqual({ ...about, type, deduplicationKey })
  expect(JSON.parse(body)).toEqual({ type, timestamp: AT, data: { key: json(record, 'active'), ...more } })
})

test('a test is about no key, and one minute has one of a workspace', () => {
  const made = (workspaceId: string, atMs: number) =>
    createTestEvent(workspaceId, { id: 'msg_1', atMs }, 'operator')
  const { body, ...rest } = made('ws_1', NOW_MS)
  const about = {
    workspaceId: 'ws_1',
    keyId: '',
    type: 'test',
    receiver: 'operator',
    id: 'msg_1',
    atMs: NOW_MS,
  }
  expect(rest).toEqual({ ...about, deduplicationKey: `test:ws_1:${NOW_MS / 60_000}` })
  expect(JSON.parse(body)).toEqual({ type: 'test', timestamp: AT, data: { workspaceId: 'ws_1' } })
  const keyOf = (workspaceId: string, ms: number) => made(workspaceId, NOW_MS + ms).deduplicationKey
  expect(keyOf('ws_1', 59_999)).toBe(keyOf('ws_1', 0))
  expect(keyOf('ws_1', 60_000)).not.toBe(keyOf('ws_1', 0))
  expect(keyOf('ws_2', 0)).not.toBe(keyOf('ws_1', 0))
})

test.each([
  [{}, false, []],
  [{ url: 'https://hooks.example.com/' }, false, []],
  [{ secret: 'whsec_x' }, false, []],
  [{ url: 'https://hooks.example.com/', secret: 'whsec_x' }, false, ['operator']],
  [{ url: 'https://hooks.example.com/', secret: 'whsec_x' }, true, ['operator', 'workspace']],
  [{}, true, ['workspace']],
])('with the webhook %j, and those of workspaces %s, events go to %j', (webhook, enabled, receivers) => {
  expect(configuredReceivers(consoleConfig({ webhook, workspaceWebhooks: { enabled } }))).toEqual(receivers)
})
