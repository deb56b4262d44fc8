import { beforeEach, describe, expect, test } from 'vitest'
import { BrowserDouble } from '../../support/browser-double.ts'
import { CONSOLE, SESSION_COOKIE, type SignedIn, START, startSignIn } from '../../support/signed-in.ts'

const KEYS = '/workspaces/ws_1/keys'
const request = { name: 'forged', scopes: ['workspace:read'] }

let world: Awaited<ReturnType<typeof startSignIn>>
let ada: SignedIn
beforeEach(async () => {
  world = await startSignIn()
  ada = await world.signedIn({ sub: 'ada', workspaces: ['ws_1'] })
})
const issued = async () => (await ada.call('GET', KEYS)).body.keys.length

describe('a forged request that a browser sends with its cookies', () => {
  test.each<[string, Record<string, string>]>([
    ['without a token', {}],
    ['with an empty one', { 'x-csrf-token': '' }],
    ['with a made-up one', { 'x-csrf-token': 'AAAAAAAA-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' }],
  ])('%s changes nothing', async (_, headers) => {
    const answer = await ada.call('POST', KEYS, request, headers)
    expect([answer.status, answer.body.code]).toEqual([403, 'forbidden'])
    expect(await issued()).toBe(0)
  })

  test('changes nothing with the CSRF token of another session', async () => {
    const mallory = await world.signedIn({ sub: 'mallory', workspaces: ['ws_1'] })
    const answer = await ada.call('POST', KEYS, request, { 'x-csrf-token': mallory.csrf })
    expect(answer.status).toBe(403)
    expect(await issued()).toBe(0)
  })

  test.each<[string, Record<string, string>]>([
    ['from another origin', { origin: 'https://evil.example' }],
    [
      'from a neighbour in the domain',
      { origin: 'https://other.console.test', 'sec-fetch-site': 'same-site' },
    ],
    ['over plain http', { origin: 'http://console.test' }],
    ['from another port', { origin: 'https://console.test:8443' }],
    ['from a page without an origin', { origin: 'null' }],
    ['from another site, as the browser says', { 'sec-fetch-site': 'cross-site' }],
  ])('%s changes nothing, even with a stolen token', async (_, headers) => {
    const answer = await ada.call('POST', KEYS, request, { 'x-csrf-token': ada.csrf, ...headers })
    expect([answer.status, answer.body.code]).toEqual([403, 'forbidden'])
    expect(await issued()).toBe(0)
  })

  test.each(['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x'])(
    'as %s, which needs no permission, is no request of the admin API',
    async type => {
      const headers = { 'content-type': type, 'x-csrf-token': ada.csrf, origin: CONSOLE }
      const answer = await ada.browser.send('POST', `/admin/v1${KEYS}`, headers, JSON.stringify(request))
      expect(answer.status).toBe(415)
      expect(await issued()).toBe(0)
    },
  )

  test('gets no CORS permission', async () => {
    const preflight = { origin: 'https://evil.example', 'access-control-request-method': 'POST' }
    const answer = await world.app.inject({
      method: 'OPTIONS',
      url: `/admin/v1${KEYS}`,
      headers: { host: 'console.test', ...preflight },
    })
    expect(answer.statusCode).toBeGreaterThanOrEqual(400)
    expect(Object.keys(answer.headers).filter(name => name.startsWith('access-control'))).toEqual([])
  })

  test('cannot sign the person out', async () => {
    const forged = await ada.browser.post('/sign-out', {}, { origin: 'https://evil.example' })
    expect(forged.status).toBe(403)
    // Without its token the form is shown again, as after a session that is over.
    const without = await ada.browser.post('/sign-out', {})
    expect([without.status, without.headers['set-cookie']]).toEqual([303, undefined])
    expect((await ada.call('GET', KEYS)).status).toBe(200)
  })
})

test('the CSRF token in a form field is accepted', async () => {
  const answer = await ada.browser.post('/sign-out', { _csrf: ada.csrf })
  expect([answer.status, answer.headers['location']]).toEqual([303, '/sign-in'])
})

describe('a foreign host name that resolves to this address', () => {
  test.each(['evil.example', 'console.test.evil.example', 'console.test:8443', '127.0.0.1:8081', ''])(
    'Host: %s gets the address of the console, and nothing else',
    async host => {
      for (const path of ['/', '/sign-in', '/sign-in/start', `/admin/v1${KEYS}`]) {
        const { status, text, headers } = await ada.browser.send('GET', path, { host })
        expect([path, status]).toEqual([path, 421])
        expect(text).toContain('This console is available only at https://console.test')
        expect(text).not.toContain('ws_1')
        expect(headers['set-cookie']).toBeUndefined()
      }
    },
  )

  test('X-Forwarded-Host does not change redirects', async () => {
    const forwarded = { 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'http' }
    const { headers } = await world.browser().send('GET', START, forwarded)
    const { searchParams } = new URL(headers['location'] ?? '')
    expect(searchParams.get('redirect_uri')).toBe('https://console.test/sign-in/callback')
  })

  test.each(['console.test', 'CONSOLE.test', 'console.test:443'])(
    '%s is accepted as the console’s own',
    async host => {
      expect((await ada.browser.send('GET', '/workspaces/ws_1/keys', { host })).status).toBe(200)
    },
  )

  test('programs may use any host name: no browser sends their token', async () => {
    const headers = { host: 'postern-console:8081' }
    expect((await world.send('GET', `/admin/v1${KEYS}`, undefined, { headers })).status).toBe(200)
  })
})

describe('a page', () => {
  test('cannot be framed, runs only our own files, and is not cached', async () => {
    const { headers } = await ada.browser.visit('/')
    const policy = (headers['content-security-policy'] ?? '').split(';')
    const own = ['connect', 'font', 'form-action', 'img', 'manifest', 'script', 'style']
    expect(policy.toSorted()).toEqual(
      [
        ...["base-uri 'none'", "default-src 'none'", "frame-ancestors 'none'"],
        ...own.map(kind => `${kind === 'form-action' ? kind : `${kind}-src`} 'self'`),
      ].toSorted(),
    )
    expect(headers).toMatchObject({
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'referrer-policy': 'same-origin',
      'strict-transport-security': 'max-age=15552000',
    })
  })
})

test('a session cookie planted by a sibling domain is not accepted', async () => {
  const mallory = await world.signedIn({ sub: 'mallory', workspaces: ['ws_1'] })
  const planted = mallory.browser.cookie(SESSION_COOKIE)?.value ?? ''
  const victim = world.browser()
  victim.setCookie('postern-session', planted)
  expect((await victim.visit('/')).url).toBe(`${CONSOLE}/sign-in`)
  expect(ada.browser.cookie(SESSION_COOKIE)?.attributes).toBe(
    'Max-Age=43200; Path=/; HttpOnly; Secure; SameSite=Lax',
  )
})

test('every sign-in starts a new session', async () => {
  const victim = world.browser()
  const fixed = 'A'.repeat(43)
  victim.setCookie(SESSION_COOKIE, fixed)
  const page = await victim.visit(START)
  expect(page.text).toContain('ada')
  const first = victim.cookie(SESSION_COOKIE)?.value
  expect(first).toMatch(/^[\w-]{43}$/)
  expect(first).not.toBe(fixed)

  await victim.visit(START)
  const second = victim.cookie(SESSION_COOKIE)?.value ?? ''
  expect(second).not.toBe(first)
  // And the one before is over.
  const other = new BrowserDouble(CONSOLE, world.app)
  other.setCookie(SESSION_COOKIE, first ?? '')
  expect((await other.visit('/')).url).toBe(`${CONSOLE}/sign-in`)
})
