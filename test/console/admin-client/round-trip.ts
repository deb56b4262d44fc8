import { deepEqual, equal, match } from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import createClient from 'openapi-fetch'
// Generated from the OpenAPI document by the test that runs this program.
import type { components, paths } from './admin-api.ts'

/** A client of the whole admin API, written against generated types alone. */
const [origin = '', token = ''] = process.argv.slice(2)
const client = createClient<paths>({
  baseUrl: `${origin}/admin/v1`,
  headers: { authorization: `Bearer ${token}` },
})

type Key = components['schemas']['Key']
const workspace = { path: { workspaceId: 'ws_1' } }
const ofKey = ({ id: keyId }: Pick<Key, 'id'>) => ({ path: { keyId } })
/** The data of a response; an error ends the program. */
function dataOf<Data>({ data, error }: { data?: Data; error?: unknown }): Data {
  if (data === undefined) throw new Error(`The call failed: ${JSON.stringify(error)}`)
  return data
}
const linesOf = (text: string) => text.split('\n').filter(line => line !== '')

async function issueAndRead(): Promise<{ key: Key; secret: string }> {
  const body = { name: 'client', scopes: ['files:read'], allowedCidrs: ['192.0.2.0/24'], expiresInDays: 30 }
  const headers = { 'Idempotency-Key': randomBytes(8).toString('hex') }
  const params = { ...workspace, header: headers }
  const { key, secret } = dataOf(await client.POST('/workspaces/{workspaceId}/keys', { params, body }))
  const again = dataOf(await client.POST('/workspaces/{workspaceId}/keys', { params, body }))
  deepEqual([again.key.id, again.secret], [key.id, null])
  deepEqual(dataOf(await client.GET('/keys/{keyId}', { params: ofKey(key) })).key, key)
  const listed = dataOf(await client.GET('/workspaces/{workspaceId}/keys', { params: workspace }))
  deepEqual([listed.keys.map(({ id }) => id), listed.hasMore], [[key.id], false])
  const found = dataOf(await client.GET('/keys', { params: { query: { q: 'CLIENT', count: '1' } } }))
  deepEqual([found.keys[0]?.id, found.total], [key.id, 1])
  const digest = createHash('sha256')
    .update(secret ?? '')
    .digest('hex')
  equal(dataOf(await client.POST('/keys/lookup', { body: { digest } })).key.id, key.id)
  const { workspaces } = dataOf(await client.GET('/workspaces'))
  deepEqual([workspaces[0]?.workspaceId, workspaces[0]?.keys.active], ['ws_1', 1])
  return { key, secret: secret ?? '' }
}

async function change(key: Key): Promise<void> {
  const edit = (version: number) =>
    client.PATCH('/keys/{keyId}', {
      params: { ...ofKey(key), header: { 'If-Match': `"${version}"` } },
      body: { name: 'renamed' },
    })
  const checked = await client.POST('/keys/{keyId}/check-edit', {
    params: ofKey(key),
    body: { name: 'renamed' },
  })
  deepEqual([dataOf(checked).key.name, dataOf(checked).key.version], ['renamed', key.version + 1])
  equal(dataOf(await edit(key.version)).key.name, 'renamed')
  const { error, response } = await edit(key.version)
  deepEqual([response.status, error?.code, response.headers.get('etag')], [412, 'precondition_failed', '"2"'])
  const planned = await client.PUT('/workspaces/{workspaceId}/plan', {
    params: workspace,
    body: { plan: null },
  })
  const { plan } = dataOf(await client.GET('/workspaces/{workspaceId}/plan', { params: workspace }))
  deepEqual([dataOf(planned).changed, plan], [0, null])
  const suspended = dataOf(await client.POST('/keys/{keyId}/suspend', { params: ofKey(key) }))
  equal(suspended.key.state, 'suspended')
  const resumed = dataOf(await client.POST('/keys/{keyId}/resume', { params: ofKey(key) }))
  equal(resumed.key.state, 'active')
  const params = { ...ofKey(key), query: { wait: '1' as const } }
  const rotated = dataOf(await client.POST('/keys/{keyId}/rotate', { params, body: { overlapSeconds: 60 } }))
  deepEqual([rotated.replaced?.state, rotated.key.rotatedFrom], ['retiring', key.id])
  const revoked = dataOf(await client.POST('/keys/{keyId}/revoke', { params: ofKey(rotated.key) }))
  equal(revoked.key.state, 'revoked')
}

async function importAndEnd(): Promise<void> {
  const entry = {
    digest: createHash('sha256').update('key of another system').digest('hex'),
    ...{ hint: '…stem', workspaceId: 'ws_1', name: 'imported', scopes: ['files:read'] },
    expiresAt: new Date(Date.now() + 86_400_000).toISOString(),
  }
  const body = { keys: [entry, { digest: 'none' }] }
  const checked = dataOf(await client.POST('/import/check', { body }))
  const { imported, results } = dataOf(await client.POST('/import', { body }))
  deepEqual(checked, { imported, results })
  deepEqual([imported, results.map(({ status }) => status)], [1, ['imported', 'invalid']])
  const exported = await client.GET('/keys/export', { parseAs: 'text' })
  const lines = linesOf(dataOf(exported)).map(
    line => JSON.parse(line) as components['schemas']['ExportedKey'],
  )
  equal(lines.find(({ name }) => name === 'imported')?.digest, entry.digest)
  const bulk = await client.POST('/workspaces/{workspaceId}/revoke-all', { params: workspace })
  equal(dataOf(bulk).revoked, 2)
}

async function audit(): Promise<void> {
  const own = dataOf(await client.GET('/workspaces/{workspaceId}/audit', { params: workspace }))
  const searched = dataOf(await client.GET('/audit', { params: { query: { action: 'key.issued' } } }))
  deepEqual([own.entries[0]?.action, searched.entries.length], ['key.revoked', 1])
  const exported = linesOf(dataOf(await client.GET('/audit/export', { parseAs: 'text' })))
  equal(JSON.parse(exported[0] ?? '{}').action, 'key.issued')
  const log = await client.GET('/workspaces/{workspaceId}/deliveries', { params: workspace })
  deepEqual(dataOf(log), { deliveries: [], hasMore: false })
}

async function webhook(): Promise<void> {
  const params = workspace
  const body = { url: 'https://8.8.8.8/in' }
  const set = dataOf(await client.POST('/workspaces/{workspaceId}/webhook', { params, body }))
  equal(set.secret.startsWith('whsec_'), true)
  const shown = dataOf(await client.GET('/workspaces/{workspaceId}/webhook', { params }))
  deepEqual(shown.webhook, set.webhook)
  const removed = dataOf(await client.POST('/workspaces/{workspaceId}/webhook/remove', { params }))
  equal(removed.removed, true)
  // Without a webhook nothing is sent.
  const tested = await client.POST('/workspaces/{workspaceId}/webhook/test', { params })
  equal(tested.error?.code, 'not_found')
  const log = await client.GET('/workspaces/{workspaceId}/webhook/deliveries', { params })
  deepEqual(dataOf(log), { deliveries: [], hasMore: false })
}

async function usage(key: Key): Promise<void> {
  const ofDay = await client.GET('/keys/{keyId}/usage', {
    params: { ...ofKey(key), query: { step: 'hour' as const } },
  })
  const { step, usage: hours } = dataOf(ofDay)
  deepEqual([step, hours.some(({ requests }) => requests > 0)], ['hour', false])
  const ofAll = await client.GET('/workspaces/{workspaceId}/usage', { params: workspace })
  equal(dataOf(ofAll).usage.length > 0, true)
  const refusals = await client.GET('/workspaces/{workspaceId}/refusals', { params: workspace })
  deepEqual(dataOf(refusals), { refusals: [], sampled: false, hasMore: false })
  const conditions = { code: 'rate_limited', requestId: 'r1', limit: '10' }
  const searched = await client.GET('/refusals', { params: { query: conditions } })
  deepEqual(dataOf(searched), { refusals: [], sampled: false, hasMore: false })
  const exported = await client.GET('/refusals/export', {
    params: { query: { keyId: key.id } },
    parseAs: 'text',
  })
  // Without a line the response has no text, which the client takes for no data.
  deepEqual([exported.response.status, exported.data ?? ''], [200, ''])
  const limits = await client.GET('/limits', { params: { query: { workspaceId: 'ws_1', limit: '10' } } })
  deepEqual(dataOf(limits), { limits: [], hasMore: false })
}

async function tokens(): Promise<void> {
  const body = { name: 'reader', permissions: ['keys:read'], workspaces: ['ws_1'], expiresInDays: 1 }
  const made = dataOf(await client.POST('/tokens', { body }))
  match(made.secret ?? '', /^pat_/)
  const authorization = `Bearer ${made.secret}`
  const caller = dataOf(await client.GET('/whoami', { headers: { authorization } }))
  deepEqual([caller.kind, caller.permissions, caller.workspaces], ['token', ['keys:read'], ['ws_1']])
  deepEqual(dataOf(await client.GET('/tokens')).tokens[0]?.id, made.token.id)
  const params = { path: { tokenId: made.token.id } }
  const { token } = dataOf(await client.POST('/tokens/{tokenId}/revoke', { params }))
  equal(typeof token.revokedAt, 'string')
  const refused = await client.GET('/whoami', { headers: { authorization } })
  deepEqual([refused.response.status, refused.error?.code], [401, 'unauthenticated'])
}

const { key } = await issueAndRead()
await change(key)
await importAndEnd()
await audit()
await webhook()
await usage(key)
await tokens()
// Without a Redis.
const synced = await client.POST('/sync', { body: { limit: 10 } })
deepEqual([synced.response.status, synced.error?.code], [503, 'redis_unavailable'])
equal(dataOf(await client.GET('/openapi.json'))['openapi'], '3.1.0')
