import { beforeEach, expect, test } from 'vitest'
import { type SignedIn, startSignIn } from '../../support/signed-in.ts'

const KEYS = '/workspaces/ws_1/keys'
const DAY_MS = 86_400_000

let world: Awaited<ReturnType<typeof startSignIn>>
let ada: SignedIn
let id: string
beforeEach(async () => {
  world = await startSignIn()
  ada = await world.signedIn({ sub: 'ada', name: 'Ada Lovelace', workspaces: ['ws_1'] })
  id = await issue(ada)
})
const issue = async (person: SignedIn, name = 'build server') =>
  (await person.call('POST', KEYS, { name, scopes: ['files:read'] })).body.key.id
const send = (person: SignedIn, path: string, fields: Record<string, string> = {}) =>
  person.browser.post(path, { _csrf: person.csrf, ...fields })
const textOf = async (path: string) => (await ada.browser.visit(path)).text
const stateOf = async (key = id) => (await ada.call('GET', `/keys/${key}`)).body.key.state
const edit = (person: SignedIn, fields: Record<string, string>) =>
  send(person, `${KEYS}/${id}/edit`, { name: 'build server', version: '1', ...fields })

test('a key can be suspended and resumed, and each page says what follows', async () => {
  expect(await textOf(`${KEYS}/${id}/suspend`)).toContain('until you resume it')
  expect((await send(ada, `${KEYS}/${id}/suspend`)).text).toContain('Key suspended')
  expect(await stateOf()).toBe('suspended')
  expect((await send(ada, `${KEYS}/${id}/suspend`)).text).toContain('the key was already suspended')
  expect((await send(ada, `${KEYS}/${id}/resume`)).text).toContain('Key resumed')
  expect(await stateOf()).toBe('active')
  expect((await send(ada, `${KEYS}/${id}/resume`)).text).toContain('the key was not suspended')
})

test('the button that resumes a key does not look like one that ends it', async () => {
  expect(await textOf(`${KEYS}/${id}/suspend`)).toContain('<button class="danger">Suspend now')
  await send(ada, `${KEYS}/${id}/suspend`)
  expect(await textOf(`${KEYS}/${id}/resume`)).toContain('<button class="primary">Resume now')
})

test('declining a resumption says that the key stays suspended', async () => {
  expect(await textOf(`${KEYS}/${id}/suspend`)).toContain('autofocus>Keep it</a>')
  await send(ada, `${KEYS}/${id}/suspend`)
  expect(await textOf(`${KEYS}/${id}/resume`)).toContain('autofocus>Keep it suspended</a>')
  const { text } = await send(ada, `${KEYS}/selected`, { key: id, step: 'resume' })
  expect(text).toContain('autofocus>Keep them suspended</a>')
})

test('a suspended key can be revoked; a revoked one can be neither resumed nor edited', async () => {
  await send(ada, `${KEYS}/${id}/suspend`)
  expect((await send(ada, `${KEYS}/${id}/revoke`)).text).toContain('Key revoked')
  for (const act of ['suspend', 'resume', 'edit']) {
    const answer = await send(ada, `${KEYS}/${id}/${act}`, { name: 'other', version: '3' })
    expect([act, answer.status]).toEqual([act, 409])
    expect(answer.text).toContain('It was revoked, which is final')
  }
})

test('an edit changes name, description, networks and expiry, and the page of the key shows them', async () => {
  const day = new Date(Date.now() + 10 * DAY_MS).toISOString().slice(0, 10)
  const fields = {
    name: 'CI',
    description: 'owned by <b>Grace</b>',
    allowedCidrs: '192.0.2.0/24\n2001:db8::1',
    date: day,
  }
  const answer = await edit(ada, fields)
  expect([answer.status, answer.headers['location']]).toEqual([303, `${KEYS}/${id}`])
  const { key } = (await ada.call('GET', `/keys/${id}`)).body
  expect(key).toMatchObject({
    name: 'CI',
    description: 'owned by <b>Grace</b>',
    expiresAt: `${day}T23:59:59.000Z`,
  })
  const page = await textOf(`${KEYS}/${id}`)
  expect(page).toContain('owned by &lt;b&gt;Grace&lt;/b&gt;')
  expect(page).toContain('192.0.2.0/24, 2001:db8::1/128')
})

test('a wrong edit names each mistake and keeps what was typed', async () => {
  const answer = await edit(ada, { name: '', date: '2999-01-01', allowedCidrs: 'everywhere' })
  expect(answer.status).toBe(422)
  for (const text of ['2 problems', 'Enter a name', 'Enter a day from', 'everywhere'])
    expect(answer.text).toContain(text)
  const networks = await edit(ada, { allowedCidrs: 'everywhere' })
  expect(networks.text).toContain('This must be a list of at most 32')
})

test('of two people who edit one key, the second sees what the first changed and can save over it', async () => {
  const grace = await world.signedIn({ sub: 'grace', name: 'Grace <i>Hopper', workspaces: ['ws_1'] })
  await edit(grace, { name: 'build server, EU', description: 'moved' })
  const late = await edit(ada, { description: 'mine' })
  expect(late.status).toBe(412)
  expect(late.text).toContain('This key was changed meanwhile')
  expect(late.text).toMatch(/Edited by <span[^>]*><bdi>Grace &lt;i&gt;Hopper/)
  expect(late.text).toMatch(/Name: “<bdi>build server<\/bdi>” became “<bdi>build server, EU<\/bdi>”/)
  expect(late.text).toMatch(/Description: empty became “<bdi>moved/)
  // The name, which the second person left alone, is the new one.
  expect(late.text).toContain('value="build server, EU"')
  expect(late.text).toContain('value="mine"')
  const [, version = ''] = /name="version" value="(\d+)"/.exec(late.text) ?? []
  expect((await edit(ada, { description: 'mine', version })).status).toBe(303)
  expect((await ada.call('GET', `/keys/${id}`)).body.key.description).toBe('mine')
})

test('a form without a version changes nothing', async () => {
  expect((await edit(ada, { name: 'other', version: '' })).status).toBe(412)
  expect((await ada.call('GET', `/keys/${id}`)).body.key.name).toBe('build server')
})

test('the page of a key names the person who issued or rotated it, and otherwise the kind of caller', async () => {
  expect(await textOf(`${KEYS}/${id}`)).toMatch(/by <span title="person:ada"><bdi>Ada Lovelace/)
  const successor = (await ada.call('POST', `/keys/${id}/rotate`, {})).body.key.id
  expect(await textOf(`${KEYS}/${successor}`)).toMatch(/by <span title="person:ada"><bdi>Ada Lovelace/)
  const program = await world.send('POST', `/admin/v1${KEYS}`, { name: 'p', scopes: ['files:read'] })
  expect(await textOf(`${KEYS}/${program.body.key.id}`)).toContain('by the admin token')
})

test('a rotation without overlap asks like a revocation first, then revokes the old key', async () => {
  const path = `${KEYS}/${id}/rotate`
  const [, once = ''] = /name="once" value="([^"]*)"/.exec(await textOf(path)) ?? []
  const form = { once, overlap: '0', expiry: '90', date: '' }
  const asked = await send(ada, path, form)
  expect(asked.status).toBe(200)
  for (const text of ['This cannot be undone', 'Keep it', 'Rotate and revoke now'])
    expect(asked.text).toContain(text)
  expect(await stateOf()).toBe('active')
  const done = await send(ada, path, { ...form, confirmed: 'yes' })
  expect(done.text).toMatch(/wsk_[A-Za-z0-9]{54}/)
  expect(done.text).toContain('</code> is revoked.')
  expect(await stateOf()).toBe('revoked')
})

test('all keys of a workspace are revoked only after its id was typed', async () => {
  const other = await issue(ada, 'other')
  const path = '/workspaces/ws_1/revoke-all'
  expect(await textOf(path)).toContain('Keep them')
  expect(await textOf(path)).toContain('<strong>2 keys</strong>')
  const refused = await send(ada, path, { workspace: 'ws_2' })
  expect([refused.status, await stateOf()]).toEqual([422, 'active'])
  expect(refused.text).toContain('<strong>2 keys</strong>')
  expect((await send(ada, path, { workspace: ' ws_1 ' })).text).toContain('2 keys revoked')
  expect([await stateOf(), await stateOf(other)]).toEqual(['revoked', 'revoked'])
  expect(await textOf(path)).toContain('<strong>0 keys</strong>')
  expect((await send(ada, path, { workspace: 'ws_1' })).text).toContain('No key to revoke')
  expect((await send(ada, '/workspaces/ws_2/revoke-all', { workspace: 'ws_2' })).status).toBe(404)
})
