import { beforeEach, describe, expect, test } from 'vitest'
import { digestKey } from '../../../src/domain/key/secret.ts'
import { type RunningConsole, startConsole } from '../../support/console.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { startSignIn } from '../../support/signed-in.ts'

const DAY_MS = 86_400_000
let clock: ManualClock
let running: RunningConsole

beforeEach(async () => {
  clock = new ManualClock()
  running = await startConsole({ parts: { clock } })
})

const issue = async (workspaceId: string, change: object = {}, send = running.send) => {
  const body = { name: 'build server', scopes: ['files:read'], ...change }
  return (await send('POST', `/admin/v1/workspaces/${workspaceId}/keys`, body)).body
}
const search = async (query: string) => (await running.send('GET', `/admin/v1/keys?${query}`)).body
const namesOf = (body: { keys: readonly { name: string }[] }) => body.keys.map(({ name }) => name)

describe('the list of all keys', () => {
  test('holds the keys of all workspaces, newest first, page by page', async () => {
    for (const workspaceId of ['ws_1', 'ws_2', 'ws_1']) {
      await issue(workspaceId, { name: `of ${workspaceId}` })
      clock.advance(1000)
    }
    const first = await search('limit=2&count=1')
    expect(namesOf(first)).toEqual(['of ws_1', 'of ws_2'])
    expect(first).toMatchObject({ hasMore: true, total: 3, cursor: expect.any(String) })
    const second = await search(`limit=2&cursor=${first.cursor}`)
    expect(namesOf(second)).toEqual(['of ws_1'])
    expect(second.hasMore).toBe(false)
    expect(second).not.toHaveProperty('cursor')
    expect(second).not.toHaveProperty('total')
  })

  test('is filtered by every parameter at once', async () => {
    const { key } = await issue('ws_1', { name: 'Nightly 100%', expiresInDays: 5 })
    await issue('ws_1', { name: 'Nightly 1000', expiresInDays: 5 })
    await issue('ws_1', { name: 'nightly 100%', scopes: ['workspace:read'], expiresInDays: 5 })
    await issue('ws_1', { name: 'nightly 100%', expiresInDays: 50 })
    await issue('ws_2', { name: 'nightly 100%', expiresInDays: 5 })
    const inDays = (days: number) => new Date(clock.wallMs() + days * DAY_MS).toISOString()
    const query = new URLSearchParams({
      workspaceId: 'ws_1',
      state: 'active',
      q: 'NIGHTLY 100%',
      scope: 'files:read',
      expiresBefore: inDays(14),
      createdBefore: inDays(1),
      lastUsedBefore: inDays(1),
    })
    expect((await search(query.toString())).keys).toEqual([key])
    expect((await search(`${query}&state=`)).code).toBe('invalid_request')
  })

  test('answers HEAD like GET, without a body', async () => {
    const { status, text } = await running.send('HEAD', '/admin/v1/keys')
    expect([status, text]).toEqual([200, ''])
  })

  test.each([
    ['sort=size', 'sort'],
    ['state=live', 'state'],
    ['limit=1&limit=2', 'limit'],
    ['q=a&q=b', 'q'],
    ['count=yes', 'count'],
    ['cursor=x', 'cursor'],
    ['offset=3', 'offset'],
    ['workspaceId=a/b', 'workspaceId'],
  ])('with ?%s is refused by the name of the parameter', async (query, field) => {
    const { status, body } = await running.send('GET', `/admin/v1/keys?${query}`)
    expect([status, body]).toMatchObject([400, { code: 'invalid_request', field }])
  })

  test('refuses a secret as a search text, and says what to do instead', async () => {
    const { secret } = await issue('ws_1')
    const body = await search(`q=${secret}`)
    expect(body).toMatchObject({ code: 'invalid_request', field: 'q' })
    expect(body.error).toContain('/admin/v1/keys/lookup')
    expect(JSON.stringify(body)).not.toContain(secret)
  })
})

describe('the list of workspaces', () => {
  const workspaces = async (query = '') => (await running.send('GET', `/admin/v1/workspaces${query}`)).body

  test('counts the keys of each workspace by state', async () => {
    await issue('ws_1')
    const { key } = await issue('ws_1')
    await running.send('POST', `/admin/v1/keys/${key.id}/revoke`)
    await issue('ws_2', { expiresInDays: 1 })
    const suspended = await issue('ws_2')
    await running.send('POST', `/admin/v1/keys/${suspended.key.id}/suspend`)
    const rotated = await issue('ws_2')
    await running.send('POST', `/admin/v1/keys/${rotated.key.id}/rotate`, { overlapSeconds: 2 * 86_400 })
    clock.advance(DAY_MS)
    const none = { active: 0, retiring: 0, suspended: 0, expired: 0, revoked: 0 }
    expect(await workspaces()).toEqual({
      workspaces: [
        { workspaceId: 'ws_1', keys: { ...none, active: 1, revoked: 1 }, lastUsedAt: null },
        {
          workspaceId: 'ws_2',
          keys: { ...none, active: 1, retiring: 1, suspended: 1, expired: 1 },
          lastUsedAt: null,
        },
      ],
      hasMore: false,
    })
  })

  test('is searched by a part of the id, and paged', async () => {
    for (const workspaceId of ['a.1', 'A.2', 'b_3']) await issue(workspaceId)
    const first = await workspaces('?q=a.&limit=1')
    expect(first).toMatchObject({ workspaces: [{ workspaceId: 'A.2' }], hasMore: true })
    const second = await workspaces(`?q=a.&limit=1&cursor=${first.cursor}`)
    expect(second).toMatchObject({ workspaces: [{ workspaceId: 'a.1' }], hasMore: false })
    expect((await workspaces('?q=_')).workspaces).toMatchObject([{ workspaceId: 'b_3' }])
    expect(await workspaces('?q=')).toMatchObject({ code: 'invalid_request', field: 'q' })
    expect(await workspaces('?state=active')).toMatchObject({ code: 'invalid_request', field: 'state' })
  })
})

describe('finding a key by its digest', () => {
  const find = (body: object) => running.send('POST', '/admin/v1/keys/lookup', body)

  test('returns the key, without its secret', async () => {
    const { secret, key } = await issue('ws_1')
    const { status, body, text } = await find({ digest: digestKey(secret) })
    expect([status, body]).toEqual([200, { key }])
    expect(text).not.toContain(secret)
  })

  test('is 404 for an unknown digest, and 400 for a secret', async () => {
    expect(await find({ digest: '0'.repeat(64) })).toMatchObject({ status: 404, body: { code: 'not_found' } })
    const { secret } = await issue('ws_1')
    const { status, body, text } = await find({ digest: secret })
    expect([status, body]).toMatchObject([400, { code: 'invalid_request', field: 'digest' }])
    expect(text).not.toContain(secret)
    expect(await find({})).toMatchObject({ status: 400, body: { field: 'digest' } })
  })
})

describe('a person', () => {
  test('finds the keys of their own workspaces only, in one list', async () => {
    const world = await startSignIn({ parts: { clock } })
    for (const [name, workspaceId] of [
      ['b', 'ws_1'],
      ['a', 'ws_2'],
      ['x', 'ws_9'],
      ['c', 'ws_1'],
    ] as const) {
      await issue(workspaceId, { name }, world.send)
    }
    const foreign = await issue('ws_9', { name: 'd' }, world.send)
    const ada = await world.signedIn({ sub: 'ada', workspaces: ['ws_1', 'ws_2', 'ws_3'] })
    const { body } = await ada.call('GET', '/keys?sort=name&count=1')
    expect([namesOf(body), body['total']]).toEqual([['a', 'b', 'c'], 3])
    const first = (await ada.call('GET', '/keys?sort=name&limit=2')).body
    const second = (await ada.call('GET', `/keys?sort=name&limit=2&cursor=${first.cursor}`)).body
    expect([...namesOf(first), ...namesOf(second)]).toEqual(['a', 'b', 'c'])
    const { workspaces } = (await ada.call('GET', '/workspaces')).body
    expect(workspaces).toMatchObject([
      { workspaceId: 'ws_1', keys: { active: 2 } },
      { workspaceId: 'ws_2' },
      { workspaceId: 'ws_3', keys: { active: 0 } },
    ])
    expect((await ada.call('GET', '/keys?workspaceId=ws_9')).status).toBe(404)
    expect((await ada.call('POST', '/keys/lookup', { digest: digestKey(foreign.secret) })).status).toBe(404)
  })

  test('without a workspace finds nothing', async () => {
    const world = await startSignIn({ parts: { clock } })
    await issue('ws_1', {}, world.send)
    const eve = await world.signedIn({ sub: 'eve', workspaces: [] })
    expect((await eve.call('GET', '/keys?count=1')).body).toEqual({ keys: [], hasMore: false, total: 0 })
    expect((await eve.call('GET', '/workspaces')).body).toEqual({ workspaces: [], hasMore: false })
  })
})
