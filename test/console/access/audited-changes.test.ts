import { expect, test } from 'vitest'
import { digestKey } from '../../../src/domain/key/secret.ts'
import { startConsole } from '../../support/console.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { until } from '../../support/until.ts'

const CREATED = '2026-11-20T09:00:00.000Z'
const EXPIRES = '2026-12-20T09:00:00.000Z'
const KEYS = '/admin/v1/workspaces/ws_1/keys'
/** Of every entry here. */
const FROM = { from: '127.0.0.1', requestId: 'r-1' }
const SCOPES = ['files:read']

interface Entry {
  readonly action: string
  readonly actor: string
  readonly workspaceId: string | null
  readonly keyId: string | null
  readonly detail: object
}

async function started() {
  const running = await startConsole({
    workspaceWebhooks: { enabled: true },
    leaks: { enabled: true, action: 'report' },
    parts: { clock: new ManualClock() },
  })
  const headers = { 'x-request-id': 'r-1' }
  const send = (path: string, body: object = {}, more: object = {}) =>
    running.send('POST', path, body, { headers: { ...headers, ...more } })
  const issue = async (more: object = {}) =>
    (await send(KEYS, { name: 'a', scopes: SCOPES, expiresInDays: 30, ...more })).body
  const change = async (id: string, step: string, body: object = {}) =>
    (await send(`/admin/v1/keys/${id}/${step}`, body)).body
  const edit = (id: string, body: object) =>
    running.send('PATCH', `/admin/v1/keys/${id}`, body, { headers: { ...headers, 'if-match': '"1"' } })
  /** The newest entries, the oldest of them first. */
  const entries = async (count: number): Promise<readonly Entry[]> => {
    const { text } = await running.send('GET', `/admin/v1/audit?limit=${count}`)
    return JSON.parse(text)
      .entries.map(({ id: _id, at, ...entry }: Entry & { id: string; at: string }) => {
        expect(at).toBe(CREATED)
        return entry
      })
      .reverse()
  }
  const ofKey = (keyId: string) => ({ actor: 'admin-token', workspaceId: 'ws_1', keyId })
  return { ...running, send, issue, change, edit, entries, ofKey }
}

test('a key that is issued: what was chosen, and no fields that were not', async () => {
  const { issue, entries, ofKey } = await started()
  const [plain, full] = [
    await issue(),
    await issue({ name: 'b', description: 'text', allowedCidrs: ['192.0.2.1'] }),
  ]
  expect(await entries(2)).toEqual([
    {
      ...ofKey(plain.key.id),
      action: 'key.issued',
      detail: { name: 'a', scopes: SCOPES, expiresAt: EXPIRES, ...FROM },
    },
    {
      ...ofKey(full.key.id),
      action: 'key.issued',
      detail: {
        ...{ name: 'b', description: 'text', allowedCidrs: ['192.0.2.1/32'] },
        ...{ scopes: SCOPES, expiresAt: EXPIRES, ...FROM },
      },
    },
  ])
})

test('a key that is suspended, resumed and revoked: its name, and why it ended', async () => {
  const { issue, change, entries, ofKey } = await started()
  const { id } = (await issue()).key
  for (const step of ['suspend', 'resume', 'revoke']) await change(id, step)
  expect(await entries(3)).toEqual([
    { ...ofKey(id), action: 'key.suspended', detail: { name: 'a', ...FROM } },
    { ...ofKey(id), action: 'key.resumed', detail: { name: 'a', ...FROM } },
    {
      ...ofKey(id),
      action: 'key.revoked',
      detail: { name: 'a', scopes: SCOPES, reason: 'request', ...FROM },
    },
  ])
})

test('a key that is edited: each changed field with its old and new value', async () => {
  const { issue, edit, entries, ofKey } = await started()
  const { id } = (await issue()).key
  const expiresAt = '2026-12-01T00:00:00.000Z'
  await edit(id, { name: 'b', description: 'text', expiresAt, allowedCidrs: ['::1'] })
  expect(await entries(1)).toEqual([
    {
      ...ofKey(id),
      action: 'key.edited',
      detail: {
        name: 'b',
        changes: {
          name: { old: 'a', new: 'b' },
          description: { old: null, new: 'text' },
          expiresAt: { old: EXPIRES, new: expiresAt },
          allowedCidrs: { old: [], new: ['::1/128'] },
        },
        ...FROM,
      },
    },
  ])
})

test('a rotation: overlap and successor in the entry of the old key; without overlap, its revocation too', async () => {
  const { issue, change, entries, ofKey } = await started()
  const [one, other] = [(await issue()).key.id, (await issue({ name: 'b' })).key.id]
  const successor = (await change(one, 'rotate', { overlapSeconds: 3600, expiresInDays: 30 })).key.id
  const next = (await change(other, 'rotate', { overlapSeconds: 0, expiresInDays: 30 })).key.id
  const detail = { scopes: SCOPES, successorExpiresAt: EXPIRES, ...FROM }
  expect(await entries(3)).toEqual([
    {
      ...ofKey(one),
      action: 'key.rotated',
      detail: {
        ...detail,
        name: 'a',
        overlapSeconds: 3600,
        successor,
        expiresAt: '2026-11-20T10:00:00.000Z',
      },
    },
    {
      ...ofKey(other),
      action: 'key.rotated',
      detail: { ...detail, name: 'b', overlapSeconds: 0, successor: next, expiresAt: expect.any(String) },
    },
    {
      ...ofKey(other),
      action: 'key.revoked',
      detail: { name: 'b', scopes: SCOPES, reason: 'rotation', ...FROM },
    },
  ])
})

test('keys that are revoked together and keys that are imported', async () => {
  const { issue, send, entries, ofKey } = await started()
  const { id } = (await issue()).key
  await send('/admin/v1/workspaces/ws_1/revoke-all')
  expect(await entries(1)).toEqual([
    { ...ofKey(id), action: 'key.revoked', detail: { name: 'a', scopes: SCOPES, reason: 'bulk', ...FROM } },
  ])
  const old = { hint: '…old', workspaceId: 'ws_1', name: 'old', scopes: SCOPES, expiresAt: EXPIRES }
  const entry = { ...old, digest: digestKey('old key'), suspendedAt: CREATED }
  await send('/admin/v1/import', { keys: [entry] })
  const [imported] = await entries(1)
  const detail = { name: 'old', scopes: SCOPES, expiresAt: EXPIRES, suspendedAt: CREATED, ...FROM }
  expect(imported).toEqual({ ...ofKey(imported?.keyId ?? ''), action: 'key.imported', detail })
})

test('a key that is reported as leaked: where it was found, and by whom', async () => {
  const { issue, app, entries } = await started()
  const { key, secret } = await issue()
  const payload = { token: secret, url: 'https://example.com/' }
  await app.inject({ method: 'POST', url: '/leaks/report', payload, headers: { 'x-request-id': 'r-1' } })
  expect(await entries(1)).toEqual([
    {
      ...{ action: 'key.reported', actor: 'leak-report', workspaceId: 'ws_1', keyId: key.id },
      detail: {
        ...{ name: 'a', scopes: SCOPES, reason: 'leak', foundAt: 'https://example.com/', source: null },
        ...{ by: 'Leak report', ...FROM },
      },
    },
  ])
})

test('tokens: their rights, never their secret', async () => {
  const { send, entries } = await started()
  const wanted = { name: 'ci', permissions: ['keys:read'], workspaces: ['ws_1'], expiresInDays: 30 }
  const { token } = (await send('/admin/v1/tokens', wanted)).body
  await send(`/admin/v1/tokens/${token.id}/revoke`)
  const about = {
    name: 'ci',
    permissions: ['keys:read'],
    workspaces: ['ws_1'],
    tokenId: token.id,
    expiresAt: EXPIRES,
  }
  const entry = { actor: 'admin-token', workspaceId: null, keyId: null, detail: { ...about, ...FROM } }
  expect(await entries(2)).toEqual([
    { ...entry, action: 'token.issued' },
    { ...entry, action: 'token.revoked' },
  ])
})

test('an attempt to reach a workspace that a token may not: what was tried, and by which token', async () => {
  const { send, entries } = await started()
  const wanted = { name: 'ci', permissions: ['keys:write'], workspaces: ['ws_1'], expiresInDays: 1 }
  const { token, secret } = (await send('/admin/v1/tokens', wanted)).body
  const refused = await send(
    '/admin/v1/workspaces/ws_2/keys',
    { name: 'a', scopes: SCOPES },
    { authorization: `Bearer ${secret}` },
  )
  expect(refused.status).toBe(404)
  await until('it is audited', async () => (await entries(1))[0]?.action === 'access.refused')
  expect(await entries(1)).toEqual([
    {
      ...{ action: 'access.refused', actor: `token:${token.id}`, workspaceId: null, keyId: null },
      detail: { workspaceId: 'ws_2', operation: 'issue', method: 'POST', by: 'ci', ...FROM },
    },
  ])
})
