import { beforeEach, expect, test } from 'vitest'
import { scopeList } from '../../../src/console/keys/key-view.ts'
import { type SignedIn, startSignIn } from '../../support/signed-in.ts'

const KEYS = '/workspaces/ws_1/keys'
const DAYS = { soon: 3, later: 60 }

let world: Awaited<ReturnType<typeof startSignIn>>
let ada: SignedIn
beforeEach(async () => {
  const oidc = { administratorClaim: 'roles', administratorValue: 'postern-admin' }
  world = await startSignIn({ signIn: { oidc } })
  ada = await world.signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1', 'ws_2'] })
})
const issue = async (name: string, { workspaceId = 'ws_1', ...more }: Record<string, unknown> = {}) => {
  const asked = { name, scopes: ['files:read'], ...more }
  return (await world.send('POST', `/admin/v1/workspaces/${workspaceId}/keys`, asked)).body.key.id
}
const textOf = async (path: string, person = ada) => (await person.browser.visit(path)).text
/** Names in the order of the table. */
const namesOn = (text: string) =>
  [...text.matchAll(/class="key-name"[^>]*><bdi>([^<]*)/g)].map(([, name]) => name)
const namesAt = async (path: string) => namesOn(await textOf(path))
const asAdministrator = () =>
  world.signedIn({ sub: 'grace', name: 'Grace', workspaces: [], roles: ['postern-admin'] })

test('keys are searched by name, description, hint and id, with any characters', async () => {
  const id = await issue('build server')
  await issue('100% <b>', { description: 'Owned by Müller' })
  expect(await namesAt(`${KEYS}?q=BUILD`)).toEqual(['build server'])
  expect(await namesAt(`${KEYS}?q=m%C3%BCller`)).toEqual(['100% &lt;b&gt;'])
  expect(await namesAt(`${KEYS}?q=${id.slice(8)}`)).toEqual(['build server'])
  expect(await namesAt(`${KEYS}?q=%25`)).toEqual(['100% &lt;b&gt;'])
  const none = await textOf(`${KEYS}?q=${encodeURIComponent('"><i>none')}`)
  expect(none).toContain('No key matches')
  expect(none).toContain('value="&quot;&gt;&lt;i&gt;none"')
})

test('a retiring key links to its successor on any page, and to none that does not exist in its workspace', async () => {
  const old = await issue('old')
  const { body } = await world.send('POST', `/admin/v1/keys/${old}/rotate`)
  const links = (text: string) => [...text.matchAll(/href="([^"]*)">Replaced by <code>([^<]*)/g)]
  // A search that finds the old key alone.
  const [link = []] = links(await textOf(`${KEYS}?q=${old}`))
  expect(link.slice(1)).toEqual([`${KEYS}/${body.key.id}`, body.key.hint])
  const foreign = await issue('foreign', { workspaceId: 'ws_2' })
  const imported = [foreign, 'key_01ARZ3NDEKTSV4RRFFQ69G5FAV'].map((replacedBy, index) => ({
    digest: String(index).repeat(64),
    hint: `old_…000${index}`,
    ...{ workspaceId: 'ws_1', name: `imported ${index}`, scopes: ['files:read'] },
    ...{ expiresAt: new Date(Date.now() + 86_400_000).toISOString(), replacedBy },
  }))
  expect((await world.send('POST', '/admin/v1/import', { keys: imported })).body).toMatchObject({
    imported: 2,
  })
  const text = await textOf(`${KEYS}?q=imported`)
  expect(links(text)).toEqual([])
  expect(text.match(/Replaced by a key that was not imported/g)).toHaveLength(2)
})

test('keys are filtered by state and scope, sorted, and counted over all pages', async () => {
  await issue('later', { expiresInDays: DAYS.later })
  await issue('soon', { expiresInDays: DAYS.soon })
  const gone = await issue('gone', { scopes: ['workspace:read'] })
  await world.send('POST', `/admin/v1/keys/${gone}/revoke`)
  expect(await namesAt(`${KEYS}?sort=expiresAt&state=active`)).toEqual(['soon', 'later'])
  expect(await namesAt(`${KEYS}?sort=name`)).toEqual(['gone', 'later', 'soon'])
  expect(await namesAt(`${KEYS}?scope=workspace%3Aread`)).toEqual(['gone'])
  expect(await namesAt(`${KEYS}?sort=nonsense&state=nonsense&scope=nonsense&cursor=nonsense`)).toHaveLength(3)
  const text = (await textOf(`${KEYS}?state=active`)).replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ')
  expect(text).toContain('All 3 Active 2 Expiring soon 1 Retiring 0 Suspended 0 Expired 0 Revoked 1')
  expect(text).toContain('2 keys match')
})

test('on a phone the end of a revoked key has no label that says it expires', async () => {
  const id = await issue('gone')
  const shown = /<td([^>]*)><span class="label"[^>]*>Expires</
  expect(shown.exec(await textOf(KEYS))?.[1]).toBe('')
  await world.send('POST', `/admin/v1/keys/${id}/revoke`)
  expect(shown.exec(await textOf(KEYS))?.[1]).toBe(' class="unnamed"')
})

test('a list shows two scopes of a key, and names the others for a pointer and a screen reader', () => {
  const scopes = ['a:read', 'b:read', 'c:read', 'd:read', 'e:read']
  const rest = 'c:read, d:read, e:read'
  const text = scopeList({ scopes }, 2).toString()
  expect(text).toContain(`title="${rest}"`)
  expect(
    text
      .replace(/<[^>]*>/g, ' ')
      .replace(/\s+/g, ' ')
      .trim(),
  ).toBe(`a:read b:read +3 more ${rest}`)
  expect(scopeList({ scopes: scopes.slice(0, 2) }, 2).toString()).not.toContain('more')
  for (const scope of scopes) expect(scopeList({ scopes }).toString()).toContain(`<code>${scope}</code>`)
})

test('keys are filtered by how long they were unused, except for those that are younger', async () => {
  let nowMs = Date.now()
  const clock = { wallMs: () => nowMs, monotonicMs: () => performance.now() }
  world = await startSignIn({ parts: { clock } })
  const [used, old] = [await issue('used'), await issue('old')]
  await issue('never')
  const use = (keyId: string) =>
    world.send('POST', '/internal/v1/usage', { gateway: keyId, sequence: 1, used: { [keyId]: nowMs } })
  await use(old)
  nowMs += 40 * 86_400_000
  await use(used)
  ada = await world.signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1'] })
  await issue('new')
  expect(await namesAt(`${KEYS}?unused=never&sort=name`)).toEqual(['never', 'new'])
  expect(await namesAt(`${KEYS}?unused=30d&sort=lastUsedAt`)).toEqual(['never', 'old'])
  expect(await namesAt(`${KEYS}?unused=90d`)).toEqual([])
  expect(await namesAt(`${KEYS}?unused=nonsense`)).toHaveLength(4)
  expect(await textOf(`${KEYS}?unused=30d`)).toContain('<option value="30d" selected>')
})

test('the number of expiring keys is that of all pages, and leads to a list in the order of expiry', async () => {
  for (let count = 0; count < 52; count++)
    await issue(`expiring ${count}`, { expiresInDays: 1 + (count % 13) })
  await issue('later')
  const text = await textOf(KEYS)
  expect(text).toContain('52 keys expire within 14 days')
  expect(text).toContain('href="/workspaces/ws_1/keys?state=expiring"')
  const listed = await textOf(`${KEYS}?state=expiring`)
  expect(
    namesOn(listed)
      .slice(0, 4)
      .map(name => Number(name?.split(' ')[1]) % 13),
  ).toEqual([0, 0, 0, 0])
  expect(listed).toContain('Next page')
  expect(listed).not.toContain('later')
})

test('a key that is pasted into the search is not kept in the URL', async () => {
  const { way } = await ada.browser.visit(`${KEYS}?q=wsk_${'A'.repeat(54)}`)
  expect(way.at(-1)).toMatch(/\/find-key$/)
})

test('people see their workspaces with the number of keys in each state', async () => {
  await issue('k', { expiresInDays: DAYS.soon })
  await issue('of another', { workspaceId: 'ws_3' })
  const text = (await textOf('/workspaces')).replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ')
  expect(text).toMatch(/ws_1 Active 1 Expiring soon 1 Retiring 0/)
  expect(text).toMatch(/ws_2 Active 0/)
  expect(text).not.toContain('ws_3')
  expect((await ada.browser.visit('/keys')).status).toBe(404)
})

test('an administrator searches all workspaces and the keys of all', async () => {
  await issue('build server')
  await issue('build server, EU', { workspaceId: 'ws_3' })
  const grace = await asAdministrator()
  const found = await textOf('/workspaces?q=S_3', grace)
  expect(found).toContain('ws_3/keys">ws_3<')
  expect(found).not.toContain('>ws_1<')
  const text = await textOf('/keys?q=build&sort=name', grace)
  expect(namesOn(text)).toEqual(['build server', 'build server, EU'])
  expect(text).toContain('>ws_3</a>')
})

test('only an administrator opens a workspace by its id, and reads what an id looks like', async () => {
  const { browser } = await asAdministrator()
  const opened = await browser.send('GET', '/workspaces?workspace=ws_3')
  expect([opened.status, opened.headers['location']]).toEqual([303, '/workspaces/ws_3/keys'])
  const refused = await browser.send('GET', '/workspaces?workspace=ws+3')
  expect(refused.status).toBe(422)
  expect(refused.text).toMatch(/value="ws 3"[^>]*aria-invalid="true"/)
  expect(refused.text).toContain('Enter the id of a workspace')
  expect((await ada.browser.send('GET', '/workspaces?workspace=ws_3')).status).toBe(200)
})
