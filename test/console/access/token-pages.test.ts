import { beforeEach, expect, test } from 'vitest'
import { BrowserDouble } from '../../support/browser-double.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { type SignedIn, startSignIn } from '../../support/signed-in.ts'

const TOKENS = '/tokens'
const NEW = '/tokens/new'
const DAY_MS = 86_400_000

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

const FORM = { name: 'ci', template: 'read', expiry: '30', date: '' }

/** Fills in the form as the page offers it, and sends it. */
async function make(fields: Readonly<Record<string, string>> = {}) {
  const shown = await root.browser.visit(NEW)
  const once = /name="once" value="([^"]*)"/.exec(shown.text)?.[1] ?? ''
  const form = { _csrf: BrowserDouble.csrfTokenIn(shown), once, ...FORM, ...fields }
  return { form, made: await root.browser.post(NEW, form) }
}
const secretIn = (text: string) => /pat_[0-9A-Za-z]{54}/.exec(text)?.[0] ?? ''
const tokens = async () => (await world.send('GET', '/admin/v1/tokens')).body.tokens
const use = (secret: string, path = '/admin/v1/whoami') =>
  world.send('GET', path, undefined, { headers: { authorization: `Bearer ${secret}` } })

test('an administrator makes a token, whose secret works and is in that one answer alone', async () => {
  const { form, made } = await make({ workspaces: 'ws_2\r\nws_1' })
  const secret = secretIn(made.text)
  expect(made.headers['cache-control']).toContain('no-store')
  expect((await use(secret)).body).toMatchObject({
    name: 'ci',
    permissions: ['keys:read', 'audit:read'],
    workspaces: ['ws_1', 'ws_2'],
    expiresAt: new Date(clock.wallMs() + 30 * DAY_MS).toISOString(),
  })
  const again = await root.browser.post(NEW, form)
  expect(again.text).toContain('Token already made')
  const { text } = await root.browser.visit(TOKENS)
  expect([again.text, text].join()).not.toContain(secret.slice(4, 50))
  expect(JSON.stringify(world.log)).not.toContain(secret.slice(4))
  expect(await tokens()).toHaveLength(1)
})

test.each([
  ['read', ['keys:read', 'audit:read']],
  ['keys', ['keys:read', 'keys:write']],
  ['everything', ['keys:read', 'keys:write', 'audit:read', 'tokens:write']],
])('the template %s gives its permissions', async (template, permissions) => {
  const { made } = await make({ template })
  expect((await use(secretIn(made.text))).body).toMatchObject({ permissions })
})

test('single permissions are added to those of the template, and stand alone without one', async () => {
  await make({ template: 'keys', permissions: 'audit:read' })
  await make({ template: 'none', permissions: 'tokens:write' })
  expect((await tokens()).map(({ permissions }) => permissions)).toEqual([
    ['tokens:write'],
    ['keys:write', 'audit:read'],
  ])
})

test('a token can expire at the end of a day', async () => {
  const day = new Date(clock.wallMs() + 5 * DAY_MS).toISOString().slice(0, 10)
  await make({ expiry: 'date', date: day })
  expect((await tokens())[0]?.expiresAt).toBe(`${day}T23:59:59.000Z`)
})

test('a form with mistakes names each beside its field, keeps what was entered and makes nothing', async () => {
  const { made } = await make({ name: ' ', template: 'none', workspaces: 'ws 1/', expiry: '' })
  expect(made.status).toBe(422)
  expect(made.text).toContain('4 problems to fix')
  for (const text of [
    'Enter a name',
    'Choose at least one permission',
    'A workspace id has',
    'Choose when',
  ]) {
    expect(made.text).toContain(text)
  }
  expect(made.text).toContain('ws 1/')
  const held = await make({ name: `wsk_${'A'.repeat(54)}`, permissions: 'keys:delete' })
  expect([held.made.status, held.made.text]).toEqual([422, expect.stringContaining('This must be')])
  const many = Array.from({ length: 1001 }, (_, index) => `ws_${index}`).join(' ')
  expect((await make({ workspaces: many })).made.text).toContain('at most 1000 workspaces; these are 1001')
  expect(await tokens()).toEqual([])
})

test('a form that is sent again with other values makes no second token', async () => {
  const { form } = await make()
  const other = await root.browser.post(NEW, { ...form, name: 'other' })
  expect([other.status, other.text]).toEqual([422, expect.stringContaining('already submitted')])
  const incomplete = await root.browser.post(NEW, { ...form, once: '' })
  expect([incomplete.status, incomplete.text]).toEqual([422, expect.stringContaining('was incomplete')])
  expect(await tokens()).toHaveLength(1)
})

test('the list says what each token may do, who made it, when it was last used and whether it works', async () => {
  const workspaces = ['ws_1', 'ws_2', 'ws_3', 'ws_4', 'ws_5'].join('\n')
  const { made } = await make({ name: 'used', workspaces })
  await make({ name: 'short', expiry: '7' })
  await use(secretIn(made.text))
  clock.advance(120_000)
  const rows = async () => (await root.browser.visit(TOKENS)).text.split('<tr').slice(2)
  const [short, used] = await rows()
  for (const text of [
    'keys:read',
    'audit:read',
    'ws_1, ws_2, ws_3 and 2 more',
    'by person <bdi>root</bdi>',
    'Active',
  ]) {
    expect(used).toContain(text)
  }
  expect(used).toContain('2 minutes ago')
  expect(short).toContain('Never used')
  expect(short).toMatch(/Workspaces<\/span><span><span class="breaks">All</)
  clock.advance(8 * DAY_MS)
  root = await world.signedIn({ sub: 'root', name: 'Root', roles: ['admin'] })
  expect((await rows())[0]).toContain('Expired')
  expect((await rows())[0]).not.toContain('Revoke')
})

test('the list shows the id of each token, and leads to what the token did', async () => {
  await make({ name: 'idle' })
  const { made } = await make({ name: 'deploy', template: 'keys' })
  const headers = { authorization: `Bearer ${secretIn(made.text)}` }
  const key = { name: 'of a program', scopes: ['files:read'] }
  await world.send('POST', '/admin/v1/workspaces/ws_1/keys', key, { headers })
  const list = await root.browser.visit(TOKENS)
  const auditOf = async (id: string) => {
    expect(list.text).toContain(`>${id}</code>`)
    return (await root.browser.visit(BrowserDouble.linkIn(list, `/audit?actor=token%3A${id}`))).text
  }
  const [deploy, idle] = await tokens()
  expect(await auditOf(deploy?.id ?? '')).toContain('of a program')
  expect(await auditOf(idle?.id ?? '')).toContain('No entry matches')
})

test('a long list has pages', async () => {
  for (let count = 0; count < 51; count++) {
    clock.advance(1)
    await world.send('POST', '/admin/v1/tokens', {
      name: `token ${count}.`,
      permissions: ['keys:read'],
      expiresInDays: 1,
    })
  }
  const first = await root.browser.visit(TOKENS)
  expect(first.text).not.toContain('token 0.')
  const next = await root.browser.visit(BrowserDouble.linkIn(first, '/tokens?cursor='))
  expect(next.text).toContain('token 0.')
  expect(next.text).toContain('Newest tokens')
})

test('a token is revoked after a question that says its last use, at once and in the audit log', async () => {
  const { made } = await make()
  const secret = secretIn(made.text)
  await use(secret)
  const path = `/tokens/${(await tokens())[0]?.id}/revoke`
  const asked = await root.browser.visit(path)
  expect(asked.text).toContain('It was last used')
  expect((await use(secret)).status).toBe(200)
  const revoked = await root.browser.post(path, { _csrf: root.csrf })
  expect([revoked.status, revoked.headers['location']]).toEqual([303, TOKENS])
  expect((await use(secret)).status).toBe(401)
  expect((await root.browser.visit(TOKENS)).text).toContain('Revoked')
  const gone = await root.browser.send('GET', path)
  expect([gone.status, gone.headers['location']]).toEqual([303, TOKENS])
  await root.browser.post(path, { _csrf: root.csrf })
  const { entries } = (await root.call('GET', '/audit')).body
  const about = entries.filter(({ action }) => action.startsWith('token.'))
  expect(about.map(({ action, actor }) => [action, actor])).toEqual([
    ['token.revoked', 'person:root'],
    ['token.issued', 'person:root'],
  ])
})

test('a token that does not exist has no page', async () => {
  for (const id of ['tok_01ARZ3NDEKTSV4RRFFQ69G5FAV', 'x']) {
    const path = `/tokens/${id}/revoke`
    expect((await root.browser.visit(path)).status).toBe(404)
    expect((await root.browser.post(path, { _csrf: root.csrf })).status).toBe(404)
  }
})

test('without the CSRF token nothing is made and nothing ends', async () => {
  await make()
  const [token] = await tokens()
  await root.browser.post(NEW, { ...FORM, once: 'A'.repeat(22) })
  await root.browser.post(`/tokens/${token?.id}/revoke`, {})
  expect((await tokens()).map(({ revokedAt }) => revokedAt)).toEqual([null])
})

test('people who are not administrators see and change none of it', async () => {
  await make()
  const [token] = await tokens()
  const person = await world.signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1'] })
  const revoke = `/tokens/${token?.id}/revoke`
  const csrf = { _csrf: person.csrf }
  const tries = [
    ...(await Promise.all([TOKENS, NEW, '/tokens/made', revoke].map(path => person.browser.visit(path)))),
    await person.browser.post(NEW, { ...csrf, ...FORM, once: 'A'.repeat(22) }),
    await person.browser.post(revoke, csrf),
  ]
  expect(tries.map(({ status }) => status)).toEqual([403, 403, 403, 403, 403, 403])
  expect((await tokens()).map(({ revokedAt }) => revokedAt)).toEqual([null])
  expect((await person.browser.visit('/workspaces/ws_1/keys')).text).not.toContain('Admin tokens')
  expect((await root.browser.visit('/workspaces')).text).toContain('Admin tokens')
})
