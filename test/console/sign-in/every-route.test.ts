import { beforeEach, describe, expect, test } from 'vitest'
import { BrowserDouble, type Visit } from '../../support/browser-double.ts'
import { type RunningConsole, startConsole } from '../../support/console.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { CONSOLE, type SignedIn, signIn, startProvider, trusting } from '../../support/signed-in.ts'

/** Every route of the console; new routes are included automatically. */
interface Route {
  readonly method: 'GET' | 'POST'
  readonly url: string
}

const METHODS = ['GET', 'POST'] as const
const request = { name: 'build server', scopes: ['workspace:read'] }
const UNKNOWN_KEY = 'key_01ARZ3NDEKTSV4RRFFQ69G5FAV'

let running: RunningConsole
let ada: SignedIn
let foreignKey: string
let routes: Route[]

beforeEach(async () => {
  const provider = await startProvider()
  // It stands still: pages say what time it is.
  running = await startConsole(trusting(provider, { parts: { clock: new ManualClock() } }))
  routes = []
  // What has several methods is the refusal of those that a path does not have.
  running.app.addHook('onRoute', ({ method, url }) => {
    const asked = METHODS.find(one => one === method)
    if (asked !== undefined) routes.push({ method: asked, url })
  })
  await running.app.ready()
  ada = await signIn(new BrowserDouble(CONSOLE, running.app), provider, { sub: 'ada', workspaces: ['ws_1'] })
  foreignKey = (await running.send('POST', '/admin/v1/workspaces/ws_2/keys', request)).body.key.id
})

const pathOf = ({ url }: Route, workspace: string, key: string) =>
  url.replace(':workspaceId', workspace).replace(':keyId', key).replace('*', 'x')

async function send(
  browser: BrowserDouble,
  { method, url }: Route,
  path: string,
  csrf: string,
): Promise<Visit> {
  if (method === 'GET') return browser.send('GET', path)
  if (!url.startsWith('/admin/'))
    return browser.post(path, { _csrf: csrf, name: 'x', scopes: 'workspace:read' })
  const headers = { origin: CONSOLE, 'content-type': 'application/json', 'x-csrf-token': csrf }
  return browser.send('POST', path, headers, JSON.stringify(bodyOf(url)))
}

function bodyOf(url: string): object {
  if (url.endsWith('/webhook')) return { url: 'https://hooks.example.com/' }
  return url.endsWith('/keys') ? request : {}
}

/** Everything in which two responses may differ for a client, except for what differs in every response. */
function seen({ status, text, headers }: Visit, ...names: readonly string[]) {
  const { 'x-request-id': _, date: __, 'content-length': ___, ...rest } = headers
  const plain = names.reduce((sum, name) => sum.replaceAll(name, '…'), text + JSON.stringify(rest))
  const differing = /name="_csrf" value="[^"]*"|<code id="request-id">[^<]*/g
  return { status, text: plain.replace(differing, '') }
}

describe('every route of the console', () => {
  test('the list of routes is not empty', () => {
    expect(routes.filter(route => route.url.includes(':')).length).toBeGreaterThan(10)
    expect(routes.some(({ url }) => url === '/workspaces/:workspaceId/keys/:keyId/rotate')).toBe(true)
  })

  test('resources of another workspace are answered like unknown ones, on pages and in the admin API', async () => {
    const before = (await running.send('GET', '/admin/v1/workspaces/ws_2/keys')).text
    for (const route of routes.filter(each => each.url.includes(':'))) {
      const foreign = await send(ada.browser, route, pathOf(route, 'ws_2', foreignKey), ada.csrf)
      const unknown = await send(ada.browser, route, pathOf(route, 'ws_9', UNKNOWN_KEY), ada.csrf)
      const name = `${route.method} ${route.url}`
      expect([name, [403, 404].includes(foreign.status)]).toEqual([name, true])
      expect([name, seen(foreign, 'ws_2', foreignKey)]).toEqual([name, seen(unknown, 'ws_9', UNKNOWN_KEY)])
    }
    expect((await running.send('GET', '/admin/v1/workspaces/ws_2/keys')).text).toBe(before)
  })

  test('a key of another workspace cannot be reached through the person’s own', async () => {
    for (const route of routes.filter(each => each.url.includes(':keyId'))) {
      const foreign = await send(ada.browser, route, pathOf(route, 'ws_1', foreignKey), ada.csrf)
      const unknown = await send(ada.browser, route, pathOf(route, 'ws_1', UNKNOWN_KEY), ada.csrf)
      expect(seen(foreign, foreignKey)).toEqual(seen(unknown, UNKNOWN_KEY))
      expect(foreign.status).toBe(404)
    }
  })

  test('only sign-in and static files are served without a session', async () => {
    const stranger = new BrowserDouble(CONSOLE, running.app)
    const open: string[] = []
    for (const route of routes) {
      const { status, headers } = await send(stranger, route, pathOf(route, 'ws_1', UNKNOWN_KEY), '')
      const sentToSignIn = status === 303 && (headers['location'] ?? '').startsWith('/sign-in')
      if (!sentToSignIn && status !== 401) open.push(`${route.method} ${route.url}`)
    }
    expect(
      open.filter(route => !/^GET \/(?:assets\/[\w.]+|sign-in(?:\/start|\/callback)?)$/.test(route)),
    ).toEqual([])
  })

  test('no session can change anything without its CSRF token', async () => {
    const { id } = (await running.send('POST', '/admin/v1/workspaces/ws_1/keys', request)).body.key
    const state = async () => (await running.send('GET', '/admin/v1/workspaces/ws_1/keys')).text
    const before = await state()
    for (const route of routes.filter(each => each.method === 'POST')) {
      const { status } = await send(ada.browser, route, pathOf(route, 'ws_1', id), '')
      expect([route.url, status === 403 || status === 303]).toEqual([route.url, true])
    }
    expect(await state()).toBe(before)
    expect((await ada.call('GET', '/workspaces/ws_1/keys')).status).toBe(200)
  })
})
