import { beforeEach, expect, test } from 'vitest'
import { ManualClock } from '../../support/manual-clock.ts'
import { type SignedIn, startSignIn } from '../../support/signed-in.ts'
import { until } from '../../support/until.ts'

const PEOPLE = '/people'
const END = '/people/end'

let world: Awaited<ReturnType<typeof startSignIn>>
let clock: ManualClock
let root: SignedIn
beforeEach(async () => {
  clock = new ManualClock()
  world = await startSignIn({
    signIn: { oidc: { administratorClaim: 'roles', administratorValue: 'admin' } },
    parts: { clock },
  })
  root = await world.signedIn({ sub: 'root', name: 'Root', roles: ['admin'] })
})
const ada = () => world.signedIn({ sub: 'ada', name: 'Ada Lovelace', workspaces: ['ws_1'] })
const audit = async (query = '') => (await root.call('GET', `/audit${query}`)).body.entries

test('an administrator sees who is signed in, with sessions and when they were last seen', async () => {
  await ada()
  await ada()
  clock.advance(120_000)
  const { status, text } = await root.browser.visit(PEOPLE)
  expect(status).toBe(200)
  const rows = text.split('<tr>').slice(2)
  expect(rows).toHaveLength(2)
  expect(rows[0]).toContain('Ada Lovelace')
  expect(rows[0]).toMatch(/Sessions<\/span><span>2</)
  expect(rows[0]).toContain('2 minutes ago')
  expect(rows[1]).toContain('Root')
  expect(text).not.toContain('First page')
  const asked = (await root.browser.visit(`${END}?subject=ada`)).text
  expect(asked).toContain(': 2 sessions, last seen')
  const next = (await root.browser.visit(`${PEOPLE}?cursor=ada`)).text
  expect(next).not.toContain('Ada Lovelace')
  expect(next).toContain('First page')
  expect((await root.browser.visit('/workspaces')).text).toContain('Signed-in people')
})

test('and ends the sessions of a person after confirming, which is audited', async () => {
  const person = await ada()
  const asked = await root.browser.visit(`${END}?subject=ada`)
  expect(asked.text).toContain('The person is signed out in every browser')
  expect((await person.call('GET', '/workspaces/ws_1/keys')).status).toBe(200)
  const ended = await root.browser.post(END, { _csrf: root.csrf, subject: 'ada' })
  expect([ended.status, ended.text]).toEqual([200, expect.stringContaining('1 session ended')])
  expect((await person.browser.visit('/workspaces')).url).toContain('/sign-in')
  const [entry] = await audit('?action=person.signed_out')
  expect(entry).toMatchObject({
    actor: 'person:root',
    keyId: null,
    workspaceId: null,
    detail: { person: 'person:ada', sessions: 1, endedBy: 'person:root', by: 'Root' },
  })
})

test('submitting it again changes nothing', async () => {
  await ada()
  const end = () => root.browser.post(END, { _csrf: root.csrf, subject: 'ada' })
  await end()
  expect((await end()).text).toContain('Nothing changed: there was no session left')
  expect(await audit('?action=person.signed_out')).toHaveLength(1)
  const gone = await root.browser.send('GET', `${END}?subject=ada`)
  expect([gone.status, gone.headers['location']]).toEqual([303, PEOPLE])
})

test('without the CSRF token nothing ends', async () => {
  const person = await ada()
  await root.browser.post(END, { subject: 'ada' })
  expect((await person.call('GET', '/workspaces/ws_1/keys')).status).toBe(200)
})

test('administrators who end their own sessions sign in again', async () => {
  const ended = await root.browser.post(END, { _csrf: root.csrf, subject: 'root' })
  expect([ended.status, ended.headers['location']]).toEqual([303, '/sign-in'])
  expect((await root.call('GET', '/audit')).status).toBe(401)
})

test('people who are not administrators see none of it', async () => {
  const person = await ada()
  const tries = [
    await person.browser.visit(PEOPLE),
    await person.browser.visit(`${END}?subject=root`),
    await person.browser.post(END, { _csrf: person.csrf, subject: 'root' }),
  ]
  expect(tries.map(({ status }) => status)).toEqual([403, 403, 403])
  expect((await root.call('GET', '/audit')).status).toBe(200)
  expect((await person.browser.visit('/workspaces/ws_1/keys')).text).not.toContain('Signed-in people')
})

test('a session that has ended by itself is not listed', async () => {
  await ada()
  clock.advance(3_601_000)
  root = await world.signedIn({ sub: 'root', name: 'Root', roles: ['admin'] })
  expect((await root.browser.visit(PEOPLE)).text).not.toContain('Ada Lovelace')
})

test('signing in and out is audited, with the address and the role', async () => {
  const person = await ada()
  await person.browser.post('/sign-out', { _csrf: person.csrf })
  const entries = (await audit()).filter(entry => entry.actor === 'person:ada')
  expect(
    entries.map(({ action, detail }) => [action, detail['role'] ?? detail['sessions'], detail['from']]),
  ).toEqual([
    ['person.signed_out', 1, '127.0.0.1'],
    ['person.signed_in', 'manager', '127.0.0.1'],
  ])
})

test('attempts to reach another workspace are audited, at most ten a minute of one person', async () => {
  const person = await ada()
  const key = (
    await world.send('POST', '/admin/v1/workspaces/ws_2/keys', { name: 'x', scopes: ['files:read'] })
  ).body.key.id
  await person.call('POST', `/keys/${key}/revoke`)
  await person.browser.visit('/workspaces/ws_2/keys')
  const refused = () => audit('?action=access.refused')
  await until('both are audited', async () => (await refused()).length === 2)
  expect(await refused()).toMatchObject([
    {
      actor: 'person:ada',
      keyId: null,
      workspaceId: null,
      detail: { workspaceId: 'ws_2', operation: 'page' },
    },
    { actor: 'person:ada', detail: { workspaceId: 'ws_2', operation: 'revoke', method: 'POST' } },
  ])
  for (let times = 0; times < 12; times++) await person.call('GET', '/workspaces/ws_3/keys')
  await until(
    'each is logged',
    () => world.log.filter(line => line['msg'] === 'access refused').length === 14,
  )
  await until('ten of them are audited', async () => (await refused()).length === 10)
  // Waits for entries that are still being written.
  await root.call('GET', '/audit')
  expect(await refused()).toHaveLength(10)
  const left = world.log.filter(line => line['msg'] === 'refused access not audited')
  expect(left).toEqual([])
})
