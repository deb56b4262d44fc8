import { beforeEach, describe, expect, test } from 'vitest'
import { ADMIN_TOKEN } from '../../support/console.ts'
import { type ApiAnswer, type SignedIn, startSignIn } from '../../support/signed-in.ts'

const request = { name: 'build server', scopes: ['workspace:read'] }
const UNKNOWN_KEY = 'key_01ARZ3NDEKTSV4RRFFQ69G5FAV'
const UNKNOWN_WORKSPACE = 'ws_unknown'

let world: Awaited<ReturnType<typeof startSignIn>>
let ada: SignedIn
/** Of ws_2, which is not Ada's. */
let foreignKey: string

beforeEach(async () => {
  world = await startSignIn({
    signIn: { oidc: { administratorClaim: 'roles', administratorValue: 'keeper' } },
  })
  ada = await world.signedIn({ sub: 'ada', name: 'Ada Lovelace', workspaces: ['ws_1'] })
  foreignKey = (await world.send('POST', '/admin/v1/workspaces/ws_2/keys', request)).body.key.id
})

/** Everything in which two responses may differ for a client, except for request id and date. */
const seen = ({ status, text, headers }: ApiAnswer) => {
  const { 'x-request-id': _, date: __, ...rest } = headers
  return { status, text, headers: rest }
}

test('a person issues, reads, rotates and revokes keys of their workspace', async () => {
  const issued = await ada.call('POST', '/workspaces/ws_1/keys', request)
  expect(issued.status).toBe(201)
  const { id } = issued.body.key
  expect((await ada.call('GET', '/workspaces/ws_1/keys')).body.keys).toMatchObject([{ id }])
  expect((await ada.call('GET', `/keys/${id}`)).body.key).toMatchObject({ id, workspaceId: 'ws_1' })
  const rotated = await ada.call('POST', `/keys/${id}/rotate`, { overlapSeconds: 60 })
  expect([rotated.status, rotated.body.key.workspaceId]).toEqual([201, 'ws_1'])
  expect((await ada.call('POST', `/keys/${id}/revoke`)).body.key.state).toBe('revoked')
})

test('every change is audited under the person’s id, not their display name', async () => {
  const { body } = await ada.call('POST', '/workspaces/ws_1/keys', request)
  await ada.call('POST', `/keys/${body.key.id}/rotate`)
  await ada.call('POST', `/keys/${body.key.id}/revoke`)
  expect(body.key.createdBy).toBe('person:ada')
  const { body: trail } = await ada.call('GET', '/workspaces/ws_1/audit')
  const audited = trail.entries.map(({ action, actor, detail }) => [action, actor, detail['by']])
  expect(audited).toEqual([
    ['key.revoked', 'person:ada', 'Ada Lovelace'],
    ['key.rotated', 'person:ada', 'Ada Lovelace'],
    ['key.issued', 'person:ada', 'Ada Lovelace'],
  ])
})

test('a display name cannot impersonate a program or another person', async () => {
  const sly = await world.signedIn({ sub: 'admin-token', name: 'person:ada', workspaces: ['ws_1'] })
  const { body } = await sly.call('POST', '/workspaces/ws_1/keys', request)
  expect(body.key.createdBy).toBe('person:admin-token')
})

describe('resources of another workspace do not exist for a person', () => {
  test.each<[string, 'GET' | 'POST', string, object?]>([
    ['list', 'GET', '/workspaces/WORKSPACE/keys'],
    ['audit', 'GET', '/workspaces/WORKSPACE/audit'],
    ['issue', 'POST', '/workspaces/WORKSPACE/keys', request],
    ['get', 'GET', '/keys/KEY'],
    ['rotate', 'POST', '/keys/KEY/rotate', {}],
    ['rotate, with a wrong overlap', 'POST', '/keys/KEY/rotate', { overlapSeconds: -1 }],
    ['revoke', 'POST', '/keys/KEY/revoke'],
    ['revoke, and wait', 'POST', '/keys/KEY/revoke?wait=1'],
  ])(
    '%s: answered as an unknown one is, byte for byte, and nothing is changed',
    async (_, method, path, body) => {
      const of = (workspace: string, key: string) =>
        ada.call(method, path.replace('WORKSPACE', workspace).replace('KEY', key), body)
      const before = (await world.send('GET', '/admin/v1/workspaces/ws_2/keys')).text
      const foreign = await of('ws_2', foreignKey)
      expect(foreign.status).toBe(404)
      expect(foreign.body.code).toBe('not_found')
      expect(seen(foreign)).toEqual(seen(await of(UNKNOWN_WORKSPACE, UNKNOWN_KEY)))
      expect((await world.send('GET', '/admin/v1/workspaces/ws_2/keys')).text).toBe(before)
      expect((await world.send('GET', '/admin/v1/workspaces/ws_2/audit')).body.entries).toHaveLength(1)
    },
  )

  test('a stored answer is not repeated once the person has lost the workspace', async () => {
    const { body } = await ada.call('POST', '/workspaces/ws_1/keys', request)
    const repeat = { 'x-csrf-token': ada.csrf, 'idempotency-key': 'once' }
    expect((await ada.call('POST', `/keys/${body.key.id}/rotate`, {}, repeat)).status).toBe(201)
    const moved = await world.signedIn({ sub: 'ada', workspaces: ['ws_3'] })
    const again = { ...repeat, 'x-csrf-token': moved.csrf }
    expect((await moved.call('POST', `/keys/${body.key.id}/rotate`, {}, again)).status).toBe(404)
  })

  test('a body cannot name another workspace', async () => {
    const answer = await ada.call('POST', '/workspaces/ws_1/keys', { ...request, workspaceId: 'ws_2' })
    expect([answer.status, answer.body.error]).toEqual([400, 'Unknown field workspaceId'])
  })
})

test('a person sees all of their workspaces, and nothing without any', async () => {
  const both = await world.signedIn({ sub: 'b', workspaces: ['ws_1', 'ws_2'] })
  expect((await both.call('GET', `/keys/${foreignKey}`)).status).toBe(200)
  expect((await both.call('GET', '/workspaces/ws_1/keys')).status).toBe(200)
  const none = await world.signedIn({ sub: 'c' })
  expect((await none.call('GET', '/workspaces/ws_1/keys')).status).toBe(404)
})

test('an administrator has every workspace and the calls across workspaces', async () => {
  const keeper = await world.signedIn({ sub: 'root', roles: ['reader', 'keeper'] })
  expect((await keeper.call('POST', `/keys/${foreignKey}/revoke`)).body.key.state).toBe('revoked')
  const { body } = await keeper.call('GET', '/workspaces/ws_2/audit')
  expect(body.entries[0]).toMatchObject({ actor: 'person:root', action: 'key.revoked' })
  // There is no Redis here to write to: it is the call itself that says so.
  expect((await keeper.call('POST', '/sync')).body.code).toBe('redis_unavailable')
})

test('calls across workspaces require an administrator or the admin token', async () => {
  const answer = await ada.call('POST', '/sync')
  expect([answer.status, answer.body.code]).toEqual([403, 'forbidden'])
})

test.each(['reader', 'keepers', '', 'true'])(
  'a role that is called %j makes no administrator',
  async role => {
    const person = await world.signedIn({ sub: 'x', roles: [role] })
    expect((await person.call('GET', `/keys/${foreignKey}`)).status).toBe(404)
  },
)

test('a change of the claims takes effect when the person signs in again', async () => {
  world.provider.person = { sub: 'ada', workspaces: ['ws_2'] }
  expect((await ada.call('GET', '/workspaces/ws_1/keys')).status).toBe(200)
  const again = await world.signedIn({ sub: 'ada', workspaces: ['ws_2'] })
  expect((await again.call('GET', '/workspaces/ws_1/keys')).status).toBe(404)
  expect((await again.call('GET', '/workspaces/ws_2/keys')).status).toBe(200)
})

describe('the admin token is for programs', () => {
  const withToken = (token: string) => ({ authorization: `Bearer ${token}` })

  test('which need no CSRF token, and act as the program even if a cookie is sent too', async () => {
    const answer = await ada.call('POST', '/workspaces/ws_2/keys', request, withToken(ADMIN_TOKEN))
    expect([answer.status, answer.body.key.createdBy]).toEqual([201, 'admin-token'])
  })

  test('and a wrong one is rejected, even with a valid session', async () => {
    const answer = await ada.call('GET', '/workspaces/ws_1/keys', undefined, withToken('wrong'))
    expect([answer.status, answer.body.code]).toEqual([401, 'unauthenticated'])
  })

  test('a caller with neither learns nothing, not even which paths exist', async () => {
    const stranger = world.browser()
    for (const path of ['/keys/x', '/nothing', '/workspaces/ws_1/keys']) {
      const { status, text, headers } = await stranger.send('GET', `/admin/v1${path}`)
      expect([status, JSON.parse(text).code]).toEqual([401, 'unauthenticated'])
      expect(headers['www-authenticate']).toBe('Bearer realm="postern"')
    }
  })

  test('a session does not admit to the internal API', async () => {
    const answer = await ada.browser.send('GET', `/internal/v1/keys/${'0'.repeat(64)}`)
    expect([answer.status, JSON.parse(answer.text).code]).toEqual([404, 'unknown_path'])
  })
})
