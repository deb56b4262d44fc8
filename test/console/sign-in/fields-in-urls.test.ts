import { expect, test } from 'vitest'
import { startSignIn } from '../../support/signed-in.ts'

const SECRET = 'SECRETOFTHERECEIVER'
const KEY = `wsk_${'A'.repeat(54)}`
const person = { sub: 'ada', name: 'Ada', workspaces: ['ws_1'] }
const KEYS = '/workspaces/ws_1/keys'

async function start() {
  const world = await startSignIn({ workspaceWebhooks: { enabled: true } })
  const { browser, call } = await world.signedIn(person)
  const issued = await call('POST', KEYS, { name: 'a key', scopes: ['files:read'] })
  return { browser, log: world.log, id: String(issued.body.key.id) }
}

const FORMS: readonly (readonly [string, (id: string) => string, Record<string, string>])[] = [
  ['issuing', () => `${KEYS}/new`, { name: KEY, scopes: 'files:read', expiry: '90', allowedCidrs: SECRET }],
  ['editing', id => `${KEYS}/${id}/edit`, { name: 'n', description: `old: ${SECRET}`, version: '1' }],
  ['rotating', id => `${KEYS}/${id}/rotate`, { overlap: SECRET, expiry: '90', date: SECRET }],
  ['a webhook', () => '/workspaces/ws_1/webhook', { url: `https://hooks.example.com/${SECRET}` }],
  ['revoking all', () => '/workspaces/ws_1/revoke-all', { workspace: SECRET }],
  ['finding a key', () => '/find-key', { key: KEY }],
  ['making a token', () => '/tokens/new', { name: KEY, workspaces: SECRET, expiry: '90' }],
  ['ending sessions', () => '/people/end', { subject: SECRET }],
]

test.each(FORMS)(
  'the fields of a form for %s get into no URL after the session has expired',
  async (_, pathOf, fields) => {
    const { browser, id, log } = await start()
    const path = pathOf(id)
    const search = `${browser.origin}${KEYS}?q=${SECRET}`
    // The session of the form is another one: a second tab has signed in.
    const stale = await browser.post(path, { ...fields, _csrf: 'of another session' }, { referer: search })
    browser.cookies.clear()
    const expired = await browser.post(path, fields, { referer: search })
    const signIn = await browser.visit(expired.headers['location'] ?? '')
    // Such an address of before, as from a bookmark, is cleaned on the way.
    const then = encodeURIComponent(`${path}?name=${KEY}&url=${SECRET}`)
    const { way, text } = await browser.visit(`/sign-in/start?then=${then}`)
    const seen = JSON.stringify([stale.headers, expired.headers, signIn, way.slice(1), text, log])
    // Ada is no administrator, which is known before the form is read.
    expect([stale.status, expired.status]).toEqual([/^\/(?:people|tokens)\//.test(path) ? 403 : 303, 303])
    expect(seen).not.toContain(SECRET)
    expect(seen).not.toContain(KEY)
  },
)

test('a person who signs in again comes to the page of the form, which says what happened', async () => {
  const { browser } = await start()
  browser.cookies.clear()
  const expired = await browser.post(`${KEYS}/new`, {
    name: 'typed before',
    scopes: 'files:read',
    expiry: '90',
  })
  const signIn = await browser.visit(expired.headers['location'] ?? '')
  const { url, text } = await browser.visit(linkToStart(signIn.text))
  expect(new URL(url).pathname).toBe(`${KEYS}/new`)
  expect(text).toContain('Your session had expired')
  expect(text).not.toContain('typed before')
})

test.each([`${KEYS}?q=${KEY}&state=active`, `/workspaces?workspace=${KEY}`, `/workspaces?q=${SECRET}`])(
  'a search of a person without a session is not kept for after signing in: %s',
  async path => {
    const { browser } = await start()
    browser.cookies.clear()
    const { headers } = await browser.send('GET', path)
    expect(headers['location']).toMatch(/^\/sign-in\?then=/)
    expect(headers['location']).not.toMatch(/SECRET|wsk_/)
  },
)

test('a key that an administrator pastes as the id of a workspace is not put into a path', async () => {
  const world = await startSignIn({
    signIn: { oidc: { administratorClaim: 'roles', administratorValue: 'admin' } },
  })
  const { browser } = await world.signedIn({ ...person, roles: ['admin'] })
  const { headers } = await browser.send('GET', `/workspaces?workspace=${KEY}`)
  expect(headers['location']).toBe('/find-key')
})

function linkToStart(page: string): string {
  const [, path = ''] = /href="(\/sign-in\/start[^"]*)"/.exec(page) ?? []
  return path.replaceAll('&amp;', '&')
}
