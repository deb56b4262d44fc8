import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import type { PrepareReload } from '../../../src/config/reloadable.ts'
import type { Config } from '../../../src/config/schema/schema.ts'
import { createOneTimeLink } from '../../../src/console/sign-in/one-time-link.ts'
import { BrowserDouble } from '../../support/browser-double.ts'
import { type Certificates, makeCertificates } from '../../support/certificates.ts'
import { consoleConfig, startConsole } from '../../support/console.ts'
import { CLIENT_SECRET, type IdentityProvider, type IdToken } from '../../support/identity-provider.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { metricValue } from '../../support/metric-value.ts'
import {
  CONSOLE,
  SESSION_COOKIE,
  START,
  startProvider,
  startSignIn,
  trusting,
} from '../../support/signed-in.ts'

type World = Awaited<ReturnType<typeof startSignIn>>
const ATTEMPT_COOKIE = '__Host-postern-sign-in'
/** Start page of a signed-in user. */
const HOME = `${CONSOLE}/workspaces`
const MINUTE_MS = 60_000

/** Goes to the provider, and comes back as far as the address that the provider sends the browser to. */
async function comeBack(browser: BrowserDouble): Promise<URL> {
  const { url } = await browser.visit(START, `${CONSOLE}/sign-in/callback`)
  return new URL(url)
}

const outcomes = (metrics: World['metrics'], outcome: string) => metricValue(metrics.logins, { outcome })

/** No session began, the page gives the reason in the console's own words, and the metric counts it. */
async function expectSignInFailed(
  world: World,
  browser: BrowserDouble,
  path: string,
  status: number,
  outcome: string,
) {
  const before = await outcomes(world.metrics, outcome)
  const page = await browser.visit(path)
  expect([page.status, page.headers['content-type']]).toEqual([status, 'text/html; charset=utf-8'])
  expect(page.text).toMatch(/role="alert"/)
  expect(browser.cookie(SESSION_COOKIE)).toBeUndefined()
  expect(await outcomes(world.metrics, outcome)).toBe((before ?? 0) + 1)
  expect((await browser.visit('/')).url).toBe(`${CONSOLE}/sign-in`)
}

describe('signing in', () => {
  test('returns the person to the page they requested', async () => {
    const { browser, metrics } = await startSignIn()
    const ada = browser()
    const asked = await ada.visit('/workspaces/ws_1/keys?state=active')
    expect(asked.url).toBe('https://console.test/sign-in?then=%2Fworkspaces%2Fws_1%2Fkeys%3Fstate%3Dactive')
    const { url, text } = await ada.visit(BrowserDouble.linkIn(asked, '/sign-in'))
    expect(url).toBe('https://console.test/workspaces/ws_1/keys?state=active')
    expect(text).toContain('Ada Lovelace')
    expect(await outcomes(metrics, 'ok')).toBe(1)
    expect((await ada.visit('/sign-in?then=/keys')).way).toContain('https://console.test/keys')
  })

  test('uses the authorization code flow with PKCE', async () => {
    const { browser, provider } = await startSignIn({ signIn: { oidc: { scopes: ['profile', 'email'] } } })
    const { headers } = await browser().send('GET', START)
    const { origin, searchParams } = new URL(headers['location'] ?? '')
    expect(origin).toBe(provider.issuer)
    expect(Object.fromEntries(searchParams)).toMatchObject({
      response_type: 'code',
      client_id: 'postern-console',
      redirect_uri: 'https://console.test/sign-in/callback',
      scope: 'openid profile email',
      code_challenge_method: 'S256',
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      state: expect.stringMatching(/^[\w-]{43}$/),
      nonce: expect.stringMatching(/^[\w-]{43}$/),
    })
    expect(headers['set-cookie']).toMatch(
      /^__Host-postern-sign-in=[\w-]+; Max-Age=600; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
    )
  })

  test.each<[string, object]>([
    ['with HTTP Basic', { authentication: 'client_secret_basic' }],
    ['with its secret in the form', { authentication: 'client_secret_post' }],
    ['as a public client, without a secret', { publicClient: true }],
    ['with claims that only the userinfo endpoint tells', { claimsInIdToken: false }],
  ])('works with client authentication by %s', async (_, provider) => {
    const { signedIn } = await startSignIn({ provider })
    const ada = await signedIn({ sub: 'ada', name: 'Ada Lovelace', workspaces: ['ws_1'] })
    expect(ada.page.text).toContain('Ada Lovelace')
    expect((await ada.call('GET', '/workspaces/ws_1/keys')).status).toBe(200)
  })

  test.each<[string, string, object]>([
    ['a list', 'workspaces', { workspaces: ['ws_1', 'ws_2'] }],
    ['the text of one', 'workspaces', { workspaces: 'ws_1' }],
    ['within another', 'resource_access.postern', { resource_access: { postern: ['ws_1'] } }],
    ['an address', 'https://postern.example/workspaces', { 'https://postern.example/workspaces': ['ws_1'] }],
  ])('accepts the workspaces claim as %s', async (_, workspacesClaim, claims) => {
    const { signedIn } = await startSignIn({ signIn: { oidc: { workspacesClaim } } })
    const ada = await signedIn({ sub: 'ada', ...claims })
    expect((await ada.call('GET', '/workspaces/ws_1/keys')).status).toBe(200)
    expect((await ada.call('GET', '/workspaces/ws_3/keys')).status).toBe(404)
  })

  test.each([
    '//evil.example/x',
    '/\\evil.example',
    'https://evil.example',
    '/%09/evil.example',
    '\\/evil.example',
    'javascript:alert(1)',
    '/sign-out',
    '/.//evil.example',
  ])('never redirects to another site: then=%s', async then => {
    const { browser } = await startSignIn()
    const ada = browser()
    const asked = await ada.visit(`/sign-in?then=${encodeURIComponent(then)}`)
    const there = await ada.visit(BrowserDouble.linkIn(asked, '/sign-in/start'))
    expect(there.url.startsWith(`${CONSOLE}/`)).toBe(true)
    expect(new URL(there.url).pathname).not.toMatch(/^\/[/\\]|sign-out/)
    expect(there.way.filter(address => address.includes('//evil'))).toEqual([])
  })

  test('keeps only digests of sessions, and logs neither codes nor claims', async () => {
    const { signedIn, log, provider } = await startSignIn()
    const ada = await signedIn({ sub: 'ada', name: 'Ada Lovelace', workspaces: ['ws_1'] })
    const text = JSON.stringify(log)
    expect(text).toContain('person:ada')
    expect(text).not.toContain('Lovelace')
    expect(text).not.toContain(ada.browser.cookie(SESSION_COOKIE)?.value)
    expect(text).not.toMatch(/code=|state=/)
    expect(provider.requests).toContain('POST /token')
  })
})

describe('sign-in fails', () => {
  test('if the person denies access at the provider', async () => {
    const world = await startSignIn()
    world.provider.refusal = 'access_denied'
    await expectSignInFailed(world, world.browser(), START, 403, 'denied')
  })

  const nowSeconds = () => Math.floor(Date.now() / 1000)
  test.each<[string, (token: IdToken) => void]>([
    ['of another issuer', ({ claims }) => (claims['iss'] = 'https://evil.example')],
    ['for another client', ({ claims }) => (claims['aud'] = 'somebody-else')],
    [
      'for others beside, without saying for whom',
      ({ claims }) => (claims['aud'] = ['postern-console', 'x']),
    ],
    ['with another nonce', ({ claims }) => (claims['nonce'] = 'A'.repeat(43))],
    ['without a nonce', ({ claims }) => delete claims['nonce']],
    ['that has expired', ({ claims }) => (claims['exp'] = nowSeconds() - 60)],
    ['without an end', ({ claims }) => delete claims['exp']],
    ['that begins in a minute', ({ claims }) => (claims['nbf'] = nowSeconds() + 60)],
    ['that is not signed', ({ header }) => (header['alg'] = 'none')],
    ['without a subject', ({ claims }) => delete claims['sub']],
    ['whose subject is no text', ({ claims }) => (claims['sub'] = 7)],
  ])('with an id token %s', async (_, tamper) => {
    const world = await startSignIn()
    world.provider.tamper = token => void tamper(token)
    await expectSignInFailed(world, world.browser(), START, 400, 'invalid')
  })

  test('with an id token signed by another key', async () => {
    const world = await startSignIn()
    world.provider.signsWithOtherKey = true
    await expectSignInFailed(world, world.browser(), START, 400, 'invalid')
  })

  test.each([
    ['alone', 'postern-console', 'azp is not console.oidc.clientId'],
    ['among several audiences', ['postern-console', 'other-client'], 'azp'],
  ])(
    'with an id token that was issued to another client, which the log says: its audience %s',
    async (_, aud, said) => {
      const world = await startSignIn()
      world.provider.tamper = ({ claims }) => Object.assign(claims, { aud, azp: 'other-client' })
      await expectSignInFailed(world, world.browser(), START, 400, 'invalid')
      const failed = world.log.find(line => line['msg'] === 'sign-in failed')
      expect(failed?.['cause']).toContain(said)
    },
  )

  test('with an id token of several audiences that does not name its client', async () => {
    const world = await startSignIn()
    world.provider.tamper = ({ claims }) =>
      Object.assign(claims, { aud: ['postern-console', 'other-client'] })
    await expectSignInFailed(world, world.browser(), START, 400, 'invalid')
  })

  test.each([
    ['alone', 'postern-console'],
    ['among several audiences', ['postern-console', 'other-client']],
  ])('but not if the id token names this client: its audience %s', async (_, aud) => {
    const { signedIn, provider } = await startSignIn()
    provider.tamper = ({ claims }) => Object.assign(claims, { aud, azp: 'postern-console' })
    expect((await signedIn({ sub: 'ada' })).page.url).toContain(HOME)
  })

  test('but not if clocks differ by a few seconds', async () => {
    const { signedIn, provider } = await startSignIn()
    provider.tamper = ({ claims }) => {
      claims['iat'] = nowSeconds() + 15
      claims['exp'] = nowSeconds() - 15
    }
    expect((await signedIn({ sub: 'ada' })).page.url).toContain(HOME)
  })

  test('with another state', async () => {
    const world = await startSignIn()
    const ada = world.browser()
    const back = await comeBack(ada)
    back.searchParams.set('state', 'A'.repeat(43))
    await expectSignInFailed(world, ada, back.href, 400, 'invalid')
  })

  test('with a response from another provider', async () => {
    const world = await startSignIn()
    const ada = world.browser()
    const back = await comeBack(ada)
    expect(back.searchParams.get('iss')).toBe(world.provider.issuer)
    back.searchParams.set('iss', 'https://evil.example')
    await expectSignInFailed(world, ada, back.href, 400, 'invalid')
  })

  test('with the callback URL of another browser: following a link cannot sign a person in', async () => {
    const world = await startSignIn()
    const mallorys = await comeBack(world.browser())
    await expectSignInFailed(world, world.browser(), mallorys.href, 400, 'invalid')
    const busy = world.browser()
    await comeBack(busy)
    await expectSignInFailed(world, busy, mallorys.href, 400, 'invalid')
  })

  test('with a stolen code: it requires the verifier of the browser that started', async () => {
    const world = await startSignIn()
    const stolen = await comeBack(world.browser())
    const mallory = world.browser()
    const own = await comeBack(mallory)
    own.searchParams.set('code', stolen.searchParams.get('code') ?? '')
    await expectSignInFailed(world, mallory, own.href, 400, 'invalid')
  })

  test('with a code that was already used', async () => {
    const world = await startSignIn()
    const ada = world.browser()
    const back = await comeBack(ada)
    const attempt = ada.cookie(ATTEMPT_COOKIE)?.value ?? ''
    expect((await ada.visit(back.href)).url).toContain(HOME)
    expect(ada.cookie(ATTEMPT_COOKIE)).toBeUndefined()
    const copy = world.browser()
    copy.setCookie(ATTEMPT_COOKIE, attempt)
    await expectSignInFailed(world, copy, back.href, 400, 'invalid')
  })

  test('with an expired code', async () => {
    const world = await startSignIn()
    const ada = world.browser()
    const back = await comeBack(ada)
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 2 * MINUTE_MS })
    try {
      await expectSignInFailed(world, ada, back.href, 400, 'invalid')
    } finally {
      vi.useRealTimers()
    }
  })

  test('if it takes longer than ten minutes', async () => {
    const clock = new ManualClock()
    const world = await startSignIn({ parts: { clock } })
    const ada = world.browser()
    const back = await comeBack(ada)
    clock.advance(10 * MINUTE_MS)
    await expectSignInFailed(world, ada, back.href, 400, 'invalid')
    expect(world.provider.requests).not.toContain('POST /token')
  })

  test.each([
    '',
    'x',
    'e30',
    Buffer.from('null').toString('base64url'),
    Buffer.from('[1]').toString('base64url'),
  ])('with a malformed attempt: %j', async cookie => {
    const world = await startSignIn()
    const browser = world.browser()
    browser.setCookie(ATTEMPT_COOKIE, cookie)
    await expectSignInFailed(world, browser, '/sign-in/callback?code=x&state=y', 400, 'invalid')
  })
})

describe('a person who begins to sign in in two tabs', () => {
  test('is signed in by the later attempt, also if the response to the earlier one comes first', async () => {
    const { browser } = await startSignIn()
    const ada = browser()
    const [earlier, later] = [await comeBack(ada), await comeBack(ada)]
    expect((await ada.visit(earlier.href)).status).toBe(400)
    expect((await ada.visit(later.href)).url).toContain(HOME)
  })

  test('comes to the console in the other tab, not to a failure', async () => {
    const { browser, provider } = await startSignIn()
    const ada = browser()
    const [earlier, later] = [await comeBack(ada), await comeBack(ada)]
    expect((await ada.visit(later.href)).url).toContain(HOME)
    const session = ada.cookie(SESSION_COOKIE)?.value
    const asked = provider.requests.length
    expect((await ada.visit(earlier.href)).url).toContain(HOME)
    expect([ada.cookie(SESSION_COOKIE)?.value, provider.requests.length]).toEqual([session, asked])
  })
})

describe('a provider that fails', () => {
  test('does not keep the console from starting; people can sign in once it is up', async () => {
    const provider = await startProvider()
    provider.answer = (_, response) => void response.writeHead(503).end() === undefined
    const running = await startConsole(trusting(provider))
    const world = { ...running, provider } as World
    const ada = new BrowserDouble(CONSOLE, running.app)
    await expectSignInFailed(world, ada, START, 502, 'unavailable')
    provider.answer = null
    expect((await ada.visit(START)).url).toContain(HOME)
  })

  test('that is unreachable is reported on the sign-in page', async () => {
    const world = await startSignIn()
    await world.provider.stop()
    await expectSignInFailed(world, world.browser(), START, 502, 'unavailable')
    expect(JSON.stringify(world.log)).toMatch(/provider metadata unavailable: .*ECONNREFUSED/)
  })

  test('that does not respond times out', async () => {
    const world = await startSignIn({ signIn: { oidc: { timeoutMs: 100 } } })
    const held = Promise.withResolvers<void>()
    world.provider.hold = held.promise
    await expectSignInFailed(world, world.browser(), START, 502, 'unavailable')
    held.resolve()
  })

  test.each<[string, IdentityProvider['answer']]>([
    ['that answers no JSON', (_, response) => void response.end('<html>') === undefined],
    [
      'that says it is another one',
      (_, response) =>
        void response
          .setHeader('content-type', 'application/json')
          .end(JSON.stringify({ issuer: 'https://evil.example' })) === undefined,
    ],
    [
      'that never comes to an end',
      (_, response) =>
        void response.setHeader('content-type', 'application/json').end(' '.repeat(2 * 1024 * 1024)) ===
        undefined,
    ],
  ])('%s is no provider', async (_, answer) => {
    const world = await startSignIn()
    world.provider.answer = answer
    await expectSignInFailed(world, world.browser(), START, 502, 'unavailable')
  })

  test('that fails at the token request is not reported as an invalid sign-in', async () => {
    const world = await startSignIn()
    const ada = world.browser()
    const back = await comeBack(ada)
    world.provider.answer = (request, response) =>
      request.url === '/token' && void response.writeHead(500).end() === undefined
    await expectSignInFailed(world, ada, back.href, 502, 'unavailable')
  })

  test('that does not respond to the token request times out', async () => {
    // The calls before it have to succeed on a busy machine.
    const world = await startSignIn({ signIn: { oidc: { timeoutMs: 1_500 } } })
    const ada = world.browser()
    const back = await comeBack(ada)
    const held = Promise.withResolvers<void>()
    world.provider.hold = held.promise
    await expectSignInFailed(world, ada, back.href, 502, 'unavailable')
    held.resolve()
  })

  describe('that rejects the client of the console is reported as such, in the log and on the page', () => {
    const expectRejected = async (world: World) => {
      await expectSignInFailed(world, world.browser(), START, 502, 'unavailable')
      const { text } = await world.browser().visit(START)
      expect(text).toContain("the provider rejected the client's credentials")
      const failed = world.log.find(line => line['msg'] === 'sign-in failed')
      expect(failed?.['cause']).toBe(
        "the provider rejected the client's credentials: check console.oidc.clientId, clientSecret and tokenEndpointAuthMethod",
      )
      expect(JSON.stringify(world.log)).not.toContain(CLIENT_SECRET)
    }
    const bothListed = ['client_secret_basic', 'client_secret_post'] as const

    test.each(bothListed)('with a wrong secret by %s', async authentication => {
      const oidc = { clientSecret: 'another one' }
      await expectRejected(await startSignIn({ provider: { authentication }, signIn: { oidc } }))
    })

    test('with its secret in another place than it is registered for', async () => {
      const provider = { authentication: 'client_secret_post', listedMethods: bothListed } as const
      await expectRejected(await startSignIn({ provider }))
    })

    test.each<[string, number, Record<string, string>, string]>([
      ['Cognito', 400, {}, '{"error":"invalid_client"}'],
      [
        'Entra',
        401,
        {},
        '{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret"}',
      ],
      [
        'Keycloak',
        401,
        {},
        '{"error":"unauthorized_client","error_description":"Invalid client credentials"}',
      ],
      ['Auth0', 401, {}, '{"error":"access_denied","error_description":"Unauthorized"}'],
      ['a server with a challenge', 401, { 'www-authenticate': 'Basic realm="x"' }, ''],
      ['a proxy in front of it', 401, {}, 'Unauthorized'],
    ])('as %s says it, with %i', async (_, status, headers, body) => {
      const world = await startSignIn()
      world.provider.answer = (request, response) =>
        request.url === '/token' &&
        void response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body) ===
          undefined
      await expectRejected(world)
    })

    test.each(['invalid_client', 'unauthorized_client'])(
      'before it asks the person, with %s',
      async refusal => {
        const world = await startSignIn()
        world.provider.refusal = refusal
        await expectRejected(world)
      },
    )

    test('but not a token that only the userinfo endpoint rejects', async () => {
      const world = await startSignIn({ provider: { claimsInIdToken: false } })
      world.provider.answer = (request, response) =>
        request.url === '/me' &&
        void response.writeHead(401, { 'www-authenticate': 'Bearer error="invalid_token"' }).end() ===
          undefined
      await expectSignInFailed(world, world.browser(), START, 502, 'unavailable')
      expect(JSON.stringify(world.log)).toContain('the userinfo endpoint rejected the access token')
    })
  })

  test('gets the secret as console.oidc.tokenEndpointAuthMethod says, if its metadata lists several ways', async () => {
    const listedMethods = ['client_secret_basic', 'client_secret_post'] as const
    for (const tokenEndpointAuthMethod of listedMethods) {
      const { signedIn } = await startSignIn({
        provider: { authentication: tokenEndpointAuthMethod, listedMethods },
        signIn: { oidc: { tokenEndpointAuthMethod } },
      })
      const ada = await signedIn({ sub: 'ada', workspaces: ['ws_1'] })
      expect(ada.page.url).toContain(`${CONSOLE}/workspaces/ws_1`)
    }
  })

  test('accepts a new client secret as soon as the console has reloaded it', async () => {
    const prepared: PrepareReload<Config>[] = []
    const onReload = (prepare: PrepareReload<Config>) => void prepared.push(prepare)
    const world = await startSignIn({
      signIn: { oidc: { clientSecret: 'another one' } },
      parts: { onReload },
    })
    await expectSignInFailed(world, world.browser(), START, 502, 'unavailable')
    const next = consoleConfig(trusting(world.provider))
    for (const commit of prepared.map(prepare => prepare(next))) commit()
    await world.signedIn({ sub: 'ada', workspaces: ['ws_1'] })
    // Read again without a change, it asks the provider nothing anew.
    const asked = () => world.provider.requests.filter(request => request.includes('well-known')).length
    const before = asked()
    for (const commit of prepared.map(prepare => prepare(next))) commit()
    await world.signedIn({ sub: 'grace', workspaces: ['ws_1'] })
    expect(asked()).toBe(before)
  })

  test('is queried for metadata once an hour, and cached metadata is used while it fails', async () => {
    const clock = new ManualClock()
    const { provider, browser } = await startSignIn({ parts: { clock } })
    const asked = () => provider.requests.filter(request => request.includes('well-known')).length
    await Promise.all([browser().send('GET', START), browser().send('GET', START)])
    expect(asked()).toBe(1)
    clock.advance(60 * MINUTE_MS)
    provider.answer = (_, response) => void response.writeHead(503).end() === undefined
    expect((await browser().send('GET', START)).status).toBe(303)
    expect(asked()).toBe(2)
  })
})

describe('a provider that changes its keys', () => {
  const keyRequests = ({ requests }: IdentityProvider) => requests.filter(line => line === 'GET /jwks').length

  test.each([
    ['another id', 'second'],
    ['the same id', 'of-the-tests'],
    ['no id', undefined],
  ])('is asked for them at once, so that no sign-in fails: %s', async (_, kid) => {
    const { signedIn, provider } = await startSignIn()
    await signedIn({ sub: 'ada', workspaces: ['ws_1'] })
    provider.changeKey(kid)
    const people = await Promise.all(['grace', 'mary'].map(sub => signedIn({ sub, workspaces: ['ws_1'] })))
    for (const { page } of people) expect(page.url).toContain(`${CONSOLE}/workspaces/ws_1`)
    expect(keyRequests(provider)).toBe(2)
  })

  test('is asked at most every five seconds, however many tokens have an unknown key', async () => {
    const clock = new ManualClock()
    const world = await startSignIn({ parts: { clock }, signIn: { signInsPerMinute: 100 } })
    const { provider, browser } = world
    provider.signsWithOtherKey = true
    for (let attempt = 0; attempt < 3; attempt++) {
      await expectSignInFailed(world, browser(), START, 400, 'invalid')
    }
    expect(keyRequests(provider)).toBe(2)
    clock.advance(5_000)
    await expectSignInFailed(world, browser(), START, 400, 'invalid')
    expect(keyRequests(provider)).toBe(3)
  })

  test('and does not answer is unavailable: the token is not called invalid', async () => {
    const world = await startSignIn()
    await world.signedIn({ sub: 'ada', workspaces: ['ws_1'] })
    world.provider.changeKey('second')
    world.provider.answer = (request, response) =>
      request.url === '/jwks' && void response.writeHead(503).end() === undefined
    await expectSignInFailed(world, world.browser(), START, 502, 'unavailable')
  })
})

describe('a person with more workspaces than a session holds', () => {
  const workspaces = Array.from({ length: 1200 }, (_, index) => `ws_${String(index).padStart(4, '0')}`)

  test('sees how many are left out where workspaces are chosen, and where one of them seems not to exist; the log has the numbers', async () => {
    const { signedIn, log } = await startSignIn()
    const { browser, page } = await signedIn({ sub: 'ada', workspaces })
    const said = 'Your account has 1200 workspaces. The console uses the first 1000'
    expect(page.text).toContain(said)
    expect((await browser.visit('/workspaces/ws_0999/keys')).status).toBe(200)
    const leftOut = await browser.visit('/workspaces/ws_1000/keys')
    expect([leftOut.status, leftOut.text.includes(said)]).toEqual([404, true])
    expect(log).toContainEqual(
      expect.objectContaining({
        msg: 'person has more workspaces than a session holds',
        actor: 'person:ada',
        workspaces: 1200,
        limit: 1000,
      }),
    )
  })

  test('but not a person whose workspaces fit', async () => {
    const { signedIn, log } = await startSignIn()
    const { page } = await signedIn({ sub: 'ada', workspaces: workspaces.slice(0, 1000) })
    expect(page.text).not.toContain('The console uses the first')
    expect(JSON.stringify(log)).not.toContain('more workspaces')
  })
})

describe('over TLS', () => {
  let certificates: Certificates
  beforeAll(async () => {
    certificates = await makeCertificates()
  })
  afterAll(() => certificates.remove())

  test('a provider with a private CA is trusted if the CA is configured', async () => {
    const world = await startSignIn({
      provider: { tls: certificates.server },
      signIn: { oidc: { caFile: certificates.caFile } },
    })
    // The browser double knows no authority: what counts here is whom the console believes.
    const { status, headers } = await world.browser().send('GET', START)
    expect([status, new URL(headers['location'] ?? '').origin]).toEqual([303, world.provider.issuer])
  })

  test.each<[string, () => Certificates['server'], () => { caFile?: string }]>([
    ['of an unknown authority', () => certificates.server, () => ({})],
    ['of another name', () => certificates.misnamed, () => ({ caFile: certificates.caFile })],
  ])('a certificate %s is none', async (_, tls, oidc) => {
    const world = await startSignIn({
      provider: { tls: tls() },
      signIn: { oidc: oidc() },
    })
    await expectSignInFailed(world, world.browser(), START, 502, 'unavailable')
    expect(world.provider.requests).toEqual([])
  })
})

describe('an address with too many attempts', () => {
  test('must wait, and others need not', async () => {
    const { app, metrics } = await startSignIn({
      signIn: { signInsPerMinute: 3, trustedProxies: ['127.0.0.1'] },
    })
    const attempt = (address: string, url = '/sign-in/callback?code=x&state=y') =>
      app.inject({ url, headers: { host: 'console.test', 'x-forwarded-for': address } })
    for (let attempts = 0; attempts < 3; attempts++) expect((await attempt('192.0.2.1')).statusCode).toBe(400)
    const refused = await attempt('192.0.2.1')
    expect(refused.statusCode).toBe(429)
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
    expect(Number(refused.headers['retry-after'])).toBeLessThanOrEqual(60)
    expect(refused.payload).toContain('Wait one minute')
    expect((await attempt('192.0.2.1', START)).statusCode).toBe(429)
    expect(await outcomes(metrics, 'limited')).toBe(2)

    expect((await attempt('192.0.2.2')).statusCode).toBe(400)
    // To read the page is no attempt.
    expect((await attempt('192.0.2.1', '/sign-in')).statusCode).toBe(200)
  })

  test('cannot forge another address without a trusted proxy', async () => {
    const { app } = await startSignIn({ signIn: { signInsPerMinute: 1 } })
    const attempt = (address: string) =>
      app.inject({
        url: '/sign-in/callback?code=x',
        headers: { host: 'console.test', 'x-forwarded-for': address },
      })
    expect((await attempt('192.0.2.1')).statusCode).toBe(400)
    expect((await attempt('192.0.2.2')).statusCode).toBe(429)
  })
})

describe('without a configured provider', () => {
  test('the page names the missing settings, and sign-in is impossible', async () => {
    const { app } = await startConsole()
    const send = (url: string, cookie = '') => app.inject({ url, headers: { cookie } })
    expect((await send('/sign-in')).payload).toContain('console.oidc.issuer')
    expect((await send('/', `${SESSION_COOKIE}=${'A'.repeat(43)}`)).headers['location']).toBe('/sign-in')
    for (const path of ['/sign-in/start', '/sign-in/callback', '/sign-in/once', '/sign-in/once?token='])
      expect((await send(path)).statusCode).toBe(404)
  })

  test('the page of a demo names the link in its terminal, and says when that was used', async () => {
    const ada = {
      subject: 'ada',
      name: 'Ada',
      workspaces: ['ws_1'],
      administrator: false,
      role: 'manager',
    } as const
    const oneTimeLink = createOneTimeLink(ada, new ManualClock(), randomBytes)
    const { app } = await startConsole({ signIn: { publicUrl: 'http://localhost' }, parts: { oneTimeLink } })
    const browser = new BrowserDouble('http://localhost', app)
    expect((await browser.visit('/sign-in')).text).toContain('the demo printed in its terminal')
    expect((await browser.visit(oneTimeLink.path)).url).toContain('/workspaces/ws_1')
    const { text } = await new BrowserDouble('http://localhost', app).visit(oneTimeLink.path)
    expect(text).toContain('This link was already used or has expired')
    expect(text).toContain('press Enter in the terminal for a new one')
  })

  test('a console without a way to sign in logs a warning at start', async () => {
    const { log } = await startConsole({ adminToken: null })
    expect(log.map(line => line['msg'])).toContain(
      'no way to sign in: set console.adminToken or console.oidc.issuer',
    )
  })
})
