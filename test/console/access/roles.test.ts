import { beforeEach, describe, expect, test } from 'vitest'
import { BrowserDouble } from '../../support/browser-double.ts'
import { type RunningConsole, startConsole } from '../../support/console.ts'
import { CONSOLE, type SignedIn, signIn, startProvider, trusting } from '../../support/signed-in.ts'

const KEYS = '/workspaces/ws_1/keys'
const request = { name: 'build server', scopes: ['files:read'] }

let running: RunningConsole
let enter: (claims: object) => Promise<SignedIn>
let posts: string[]
let keyId: string
beforeEach(async () => {
  const provider = await startProvider()
  const oidc = { administratorClaim: 'roles', administratorValue: 'admin', viewerClaim: 'roles' }
  running = await startConsole(trusting(provider, { signIn: { oidc } }))
  posts = []
  running.app.addHook('onRoute', ({ method, url }) => {
    // A lookup sends a digest, and changes nothing.
    const changes = /\/keys(?:$|\/(?!lookup$))|\/revoke-all$|\/deliveries\//
    if (method === 'POST' && changes.test(url)) posts.push(url)
  })
  await running.app.ready()
  enter = claims =>
    signIn(new BrowserDouble(CONSOLE, running.app), provider, {
      sub: 'vera',
      workspaces: ['ws_1'],
      ...claims,
    })
  keyId = (await running.send('POST', `/admin/v1${KEYS}`, request)).body.key.id
})
const pathOf = (url: string, workspaceId = 'ws_1') =>
  url.replace(':workspaceId', workspaceId).replace(':keyId', keyId)
const state = async () => (await running.send('GET', `/admin/v1${KEYS}`)).text

describe('a viewer', () => {
  test('sees keys and the audit log', async () => {
    const vera = await enter({ roles: ['viewer'] })
    for (const path of [KEYS, `${KEYS}/${keyId}`, '/workspaces/ws_1/audit', '/workspaces/ws_1/api']) {
      expect([path, (await vera.browser.visit(path)).status]).toEqual([path, 200])
    }
    expect((await vera.call('GET', KEYS)).body.keys).toHaveLength(1)
    expect((await vera.call('GET', '/workspaces/ws_1/audit')).body.entries).toHaveLength(1)
  })

  test('cannot change anything by any form or call', async () => {
    const vera = await enter({ roles: ['viewer'] })
    const before = await state()
    expect(posts.length).toBeGreaterThan(6)
    for (const url of posts) {
      const [path, isCall] = [pathOf(url), url.startsWith('/admin/')]
      const fields = { _csrf: vera.csrf, name: 'x', scopes: 'files:read', once: 'A'.repeat(22) }
      const { status } = isCall
        ? await vera.call('POST', path.replace('/admin/v1', ''), request)
        : await vera.browser.post(path, fields)
      expect([path, status]).toEqual([path, 403])
    }
    const revoke = await vera.call('POST', `/keys/${keyId}/revoke`)
    expect([revoke.status, revoke.body.error]).toEqual([403, 'This call requires the permission keys:write'])
    expect(await state()).toBe(before)
  })

  test('is not shown what changes keys, and gets a page that says why', async () => {
    const vera = await enter({ roles: ['viewer'] })
    for (const path of [KEYS, `${KEYS}/${keyId}`, '/workspaces/ws_1/api']) {
      const { text } = await vera.browser.visit(path)
      expect(text).not.toMatch(/Issue a key|>Rotate<|>Revoke<|keys\/new|data-opens/)
    }
    for (const path of [`${KEYS}/new`, `${KEYS}/${keyId}/rotate`, `${KEYS}/${keyId}/revoke`]) {
      const { status, text } = await vera.browser.visit(path)
      expect([status, text]).toEqual([403, expect.stringContaining('You have the role of a viewer')])
    }
  })

  test('gets 404 for other workspaces, like every user', async () => {
    const vera = await enter({ roles: ['viewer'] })
    const foreign = await vera.browser.visit('/workspaces/ws_2/keys/new')
    expect(foreign.status).toBe(404)
  })
})

test.each([{}, { roles: ['manager'] }, { roles: 'not viewer' }, { roles: ['admin', 'viewer'] }])(
  'with the claims %j a person changes keys',
  async claims => {
    const person = await enter(claims)
    expect((await person.browser.visit(KEYS)).text).toContain('Issue a key')
    expect((await person.call('POST', KEYS, request)).status).toBe(201)
  },
)

test('a claim that only contains the administrator’s value makes no administrator', async () => {
  const sly = await enter({ roles: 'not admin' })
  expect((await sly.call('GET', '/workspaces/ws_2/keys')).status).toBe(404)
  expect((await sly.browser.visit('/people')).status).toBe(403)
})

test('managers make no tokens; administrators do', async () => {
  const body = { name: 'ci', permissions: ['keys:read'], workspaces: ['ws_1'], expiresInDays: 1 }
  const manager = await enter({})
  expect((await manager.call('POST', '/tokens', body)).status).toBe(403)
  const root = await enter({ sub: 'root', roles: ['admin'] })
  const made = await root.call('POST', '/tokens', body)
  expect([made.status, made.body.token.createdBy]).toEqual([201, 'person:root'])
})
