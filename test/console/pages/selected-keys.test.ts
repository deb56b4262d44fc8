import { beforeEach, expect, test } from 'vitest'
import { type SignedIn, startSignIn } from '../../support/signed-in.ts'

const KEYS = '/workspaces/ws_1/keys'
const SELECTED = `${KEYS}/selected`

let world: Awaited<ReturnType<typeof startSignIn>>
let ada: SignedIn
beforeEach(async () => {
  const oidc = { administratorClaim: 'roles', administratorValue: 'postern-admin' }
  world = await startSignIn({ signIn: { oidc } })
  ada = await world.signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1'] })
})
const issue = async (name: string, workspaceId = 'ws_1'): Promise<string> => {
  const asked = { name, scopes: ['files:read'] }
  return (await world.send('POST', `/admin/v1/workspaces/${workspaceId}/keys`, asked)).body.key.id
}
const choose = (keys: readonly string[], fields: Record<string, string>, path = SELECTED, person = ada) =>
  person.browser.post(path, { _csrf: person.csrf, ...fields, key: [...keys] })
const confirm = (keys: readonly string[], step: string, path = SELECTED, person = ada) =>
  choose(keys, { step, confirmed: '1' }, path, person)
const stateOf = async (id: string) => (await world.send('GET', `/admin/v1/keys/${id}`)).body.key.state
const auditOf = async (id: string) =>
  (await world.send('GET', `/admin/v1/audit?keyId=${id}`)).body.entries.map(
    ({ action, actor }: { action: string; actor: string }) => `${action} ${actor}`,
  )
const plain = (text: string) => text.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ')

test('selected keys are changed after one question that names each with its last use', async () => {
  const [build, deploy, other] = [await issue('build'), await issue('deploy'), await issue('other')]
  const question = await choose([build, deploy], { step: 'revoke' }, `${SELECTED}?state=active`)
  expect(plain(question.text)).toMatch(
    /Revoke 2 keys\? .*cannot be undone.*build.*Never used.*deploy.*Never used/,
  )
  expect(question.text).toContain(`href="${KEYS}?state=active" autofocus`)
  expect(await stateOf(build)).toBe('active')
  const done = plain((await confirm([build, deploy], 'revoke')).text)
  expect(done).toMatch(/2 keys revoked .*all announced.*No gateways known.*build.*Revoked.*deploy.*Revoked/)
  expect(await Promise.all([build, deploy, other].map(stateOf))).toEqual(['revoked', 'revoked', 'active'])
  for (const id of [build, deploy]) expect((await auditOf(id))[0]).toBe('key.revoked person:ada')
  expect(plain((await confirm([build], 'revoke')).text)).toMatch(/0 keys revoked .*Nothing to change/)
  expect(await auditOf(build)).toHaveLength(2)
})

test('selected keys are suspended and resumed, and those in another state stay as they are', async () => {
  const [build, gone] = [await issue('build'), await issue('gone')]
  await world.send('POST', `/admin/v1/keys/${gone}/revoke`)
  const question = plain((await choose([build, gone], { step: 'suspend' })).text)
  expect(question).toMatch(/Suspend 1 key\?.*Not to be suspended.*gone.*Revoked/)
  const done = plain((await confirm([build, gone], 'suspend')).text)
  expect(done).toMatch(/1 key suspended.*1 of 2 keys not changed.*Suspended.*gone.*Had ended before/)
  expect(await stateOf(build)).toBe('suspended')
  expect(plain((await confirm([build], 'resume')).text)).toContain('1 key resumed')
  expect(await stateOf(build)).toBe('active')
})

test('a key of another workspace, an unknown one and too many are not changed', async () => {
  const [own, foreign] = [await issue('own'), await issue('foreign', 'ws_2')]
  expect((await confirm([foreign], 'revoke')).text).toContain('No key is selected')
  const mixed = await confirm([own, foreign, 'key_x', 'key_01ARZ3NDEKTSV4RRFFQ69G5FAV'], 'suspend')
  expect(plain(mixed.text)).toContain('1 key suspended')
  expect(mixed.text).not.toContain('foreign')
  expect(await stateOf(foreign)).toBe('active')
  for (const step of ['suspend', 'resume', 'revoke']) {
    const many = Array.from({ length: 101 }, (_, index) => `key_${String(index).padStart(26, '0')}`)
    const answer = await confirm([own, ...many], step)
    expect([answer.status, plain(answer.text)]).toEqual([422, expect.stringContaining('at most 100 keys')])
  }
  expect((await confirm([own], 'delete')).status).toBe(422)
  expect(await stateOf(own)).toBe('suspended')
})

test('an administrator changes keys of several workspaces at once; others have no such list', async () => {
  const keys = [await issue('here'), await issue('there', 'ws_2')]
  const grace = await world.signedIn({
    sub: 'grace',
    name: 'Grace',
    workspaces: [],
    roles: ['postern-admin'],
  })
  expect((await grace.browser.visit('/keys')).text).toContain('action="/keys/selected"')
  expect((await confirm(keys, 'revoke', '/keys/selected')).status).toBe(403)
  expect(plain((await confirm(keys, 'revoke', '/keys/selected', grace)).text)).toContain('2 keys revoked')
  expect(await Promise.all(keys.map(stateOf))).toEqual(['revoked', 'revoked'])
})

test('a page of keys is changed at once, each with its own entry in the audit log', async () => {
  const keys: string[] = []
  for (let count = 0; count < 50; count++) keys.push(await issue(`key ${count}`))
  expect(plain((await confirm(keys, 'revoke')).text)).toContain('50 keys revoked')
  const { entries } = (await world.send('GET', '/admin/v1/audit?action=key.revoked&limit=100')).body
  expect(new Set(entries.map(({ keyId }: { keyId: string }) => keyId))).toEqual(new Set(keys))
})

test('the heads of a list order it, and say in which order it is', async () => {
  await issue('b')
  await issue('a')
  const heads = async (query: string) => {
    const { text } = await ada.browser.visit(KEYS + query)
    return [...text.matchAll(/<th scope="col"(?: aria-sort="(\w+)")?><a href="([^"]*)">([^<]*)/g)].map(
      ([, sort = 'none', path = '', label]) => `${label} ${sort} ${path.slice(KEYS.length)}`,
    )
  }
  expect(await heads('')).toEqual([
    'Name none ?sort=name',
    'Created descending ?sort=createdAt',
    'Expires none ?sort=expiresAt',
    'Last used none ?sort=-lastUsedAt',
  ])
  expect((await heads('?sort=name&unused=never'))[0]).toBe('Name ascending ?unused=never&amp;sort=-name')
  const { text } = await ada.browser.visit(`${KEYS}?sort=-name`)
  expect(text.indexOf('>b<')).toBeLessThan(text.indexOf('>a<'))
})
