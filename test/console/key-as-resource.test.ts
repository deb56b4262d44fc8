import { beforeEach, describe, expect, test } from 'vitest'
import { type RunningConsole, startConsole } from '../support/console.ts'

/** What a Terraform provider does with a key: create, read, import, update in place, notice drift, delete. */
const KEYS = '/admin/v1/workspaces/ws_1/keys'
const WANTED = { name: 'build server', scopes: ['files:read'], allowedCidrs: ['192.0.2.0/24'] }
/** A token for keys of one workspace, as docs/admin-api.md says. */
const PROVIDER = { name: 'terraform', permissions: ['keys:write'], workspaces: ['ws_1'], expiresInDays: 30 }

let running: RunningConsole
let authorization: string

beforeEach(async () => {
  running = await startConsole()
  authorization = `Bearer ${(await running.send('POST', '/admin/v1/tokens', PROVIDER)).body.secret}`
})

const send = (method: 'GET' | 'POST' | 'PATCH', path: string, body?: unknown, headers: object = {}) =>
  running.send(method, path, body, { headers: { authorization, ...headers } })
const edit = (id: string, version: unknown, body: object) =>
  send('PATCH', `/admin/v1/keys/${id}`, body, { 'if-match': String(version) })
const create = () => send('POST', KEYS, WANTED, { 'idempotency-key': 'apply-1' })

describe('a key as a resource of a provider', () => {
  test('is created once, also if the response was lost, and read back as it was wanted', async () => {
    const created = await create()
    expect([created.status, typeof created.body.secret]).toEqual([201, 'string'])
    const repeated = await create()
    expect([repeated.body.key.id, repeated.body.secret]).toEqual([created.body.key.id, null])
    const read = await send('GET', `/admin/v1/keys/${created.body.key.id}`)
    expect(read.body.key).toMatchObject(WANTED)
    expect(read.headers['etag']).toBe(created.headers['etag'])
  })

  test('is imported by its id, which a part of its name finds', async () => {
    const { key } = (await create()).body
    const found = await send('GET', '/admin/v1/keys?workspaceId=ws_1&q=build')
    expect(found.body.keys.map(({ id }) => id)).toEqual([key.id])
    expect((await send('GET', `/admin/v1/keys/${key.id}`)).body.key).toEqual(key)
    expect((await send('GET', '/admin/v1/keys/key_01ARZ3NDEKTSV4RRFFQ69G5FAV')).status).toBe(404)
  })

  test('is updated in place, and an update that changes nothing makes no new version', async () => {
    const created = await create()
    const { id } = created.body.key
    const next = { name: 'build server 2', description: 'nightly', allowedCidrs: [] }
    const updated = await edit(id, created.headers['etag'], next)
    expect([updated.status, updated.headers['etag']]).toEqual([200, '"2"'])
    expect(updated.body.key).toMatchObject(next)
    const same = await edit(id, updated.headers['etag'], next)
    expect([same.status, same.headers['etag'], same.body.key.version]).toEqual([200, '"2"', 2])
  })

  test('that others have changed is 412 with the present version, with which the update succeeds', async () => {
    const created = await create()
    const { id } = created.body.key
    const byOthers = await running.send(
      'PATCH',
      `/admin/v1/keys/${id}`,
      { name: 'drifted' },
      {
        headers: { 'if-match': '"1"' },
      },
    )
    expect(byOthers.status).toBe(200)
    const refused = await edit(id, created.headers['etag'], { name: WANTED.name })
    expect([refused.status, refused.body.code, refused.body.field]).toEqual([
      412,
      'precondition_failed',
      'If-Match',
    ])
    expect((await send('GET', `/admin/v1/keys/${id}`)).body.key.name).toBe('drifted')
    const repaired = await edit(id, refused.headers['etag'], { name: WANTED.name })
    expect([repaired.status, repaired.body.key.name]).toEqual([200, WANTED.name])
    const blind = await send('PATCH', `/admin/v1/keys/${id}`, { name: 'blind' })
    expect([blind.status, blind.body.code]).toEqual([428, 'precondition_required'])
  })

  test('that others have revoked is 409 for an update, and readable as revoked', async () => {
    const { key } = (await create()).body
    await running.send('POST', `/admin/v1/keys/${key.id}/revoke`)
    const { body, headers } = await send('GET', `/admin/v1/keys/${key.id}`)
    expect(body.key.state).toBe('revoked')
    const refused = await edit(key.id, headers['etag'], { name: 'late' })
    expect([refused.status, refused.body.code]).toEqual([409, 'conflict'])
  })

  test('needs a new key for other scopes or a later expiry', async () => {
    const created = await create()
    const { id, expiresAt } = created.body.key
    const scopes = await edit(id, created.headers['etag'], { scopes: ['workspace:read'] })
    expect([scopes.status, scopes.body.field]).toEqual([400, 'scopes'])
    const later = new Date(Date.parse(expiresAt) + 60_000).toISOString()
    const longer = await edit(id, created.headers['etag'], { expiresAt: later })
    expect([longer.status, longer.body.field]).toEqual([400, 'expiresAt'])
  })

  test('is deleted by revoking it, as often as the provider repeats it', async () => {
    const { key } = (await create()).body
    const first = await send('POST', `/admin/v1/keys/${key.id}/revoke?wait=1`)
    const again = await send('POST', `/admin/v1/keys/${key.id}/revoke?wait=1`)
    expect([first.status, again.status, again.body.key]).toEqual([200, 200, first.body.key])
  })

  test('of another workspace is as if it were not there', async () => {
    const { key } = (await running.send('POST', '/admin/v1/workspaces/ws_2/keys', WANTED)).body
    expect((await send('GET', `/admin/v1/keys/${key.id}`)).status).toBe(404)
    expect((await edit(key.id, '"1"', { name: 'mine' })).status).toBe(404)
    expect((await send('POST', `/admin/v1/keys/${key.id}/revoke`)).status).toBe(404)
  })
})
