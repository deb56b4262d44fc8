import { expect, onTestFinished, test } from 'vitest'
import { KEY_SERVICE_TOKEN, SIGNING_SECRET } from '../../support/console.ts'
import { Parts } from '../../support/parts.ts'
import { exchange, get } from '../../support/raw-client.ts'
import { readiness } from '../../support/readiness.ts'
import { CONSOLE_RIGHTS, CONSOLE_USER, COUNTER_RIGHTS, selectorOf } from '../../support/redis-users.ts'
import { startSignIn } from '../../support/signed-in.ts'
import { until } from '../../support/until.ts'

const W = '/workspaces/ws_1'
const POLICIES = [
  { name: 'hourly', per: 'key', requests: 50, windowSeconds: 3600 },
  { name: 'quota', per: 'workspace', requests: 10_000, window: 'month' },
] as const
const LIMITS = { policies: [], plans: { free: { policies: [...POLICIES] } } }

async function started() {
  const parts = new Parts()
  onTestFinished(() => parts.stop())
  const redis = await parts.redis()
  const upstream = await parts.upstream()
  const grant = (...more: string[]) =>
    redis.addUser(
      CONSOLE_USER.username,
      ...['reset', 'on', `>${CONSOLE_USER.password}`, ...CONSOLE_RIGHTS.standalone, ...more],
    )
  await grant(selectorOf(COUNTER_RIGHTS))
  const world = await startSignIn({
    redis: { url: redis.url, ...CONSOLE_USER },
    limits: LIMITS,
    signIn: { oidc: { administratorClaim: 'roles', administratorValue: 'postern-admin' } },
  })
  const gateway = await parts.gateway({
    POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
    POSTERN_KEY_SERVICE_TOKEN: KEY_SERVICE_TOKEN,
    POSTERN_KEY_SERVICE_URL: await world.internal.listen({ host: '127.0.0.1', port: 0 }),
    POSTERN_UPSTREAM_URL: upstream.url,
    POSTERN_REDIS_URL: redis.url,
    // A machine that does other things must not make the gateway count alone.
    POSTERN_REDIS_COMMAND_TIMEOUT_MS: '10000',
    POSTERN_LIMITS_PLANS: JSON.stringify(LIMITS.plans),
  })
  const isShared = async () => (await readiness(gateway))['limits'] === 'shared'
  await until('the gateway counts in Redis', isShared)
  const ada = await world.signedIn({ sub: 'ada', name: 'Ada', roles: ['postern-admin'] })
  const issue = async () =>
    (await ada.call('POST', `${W}/keys`, { name: 'build', scopes: ['files:read'], plan: 'free' })).body
  const send = async (secret: string, requests: number) => {
    for (let sent = 0; sent < requests; sent++) {
      expect((await exchange(gateway.urls.gateway, get(`/api/v1${W}/files`, secret))).status).toBe(200)
    }
  }
  const page = async (path: string) =>
    (await ada.browser.visit(path)).text.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ')
  const left = async (path: string) => {
    const windows = (await ada.call('GET', `${path}/usage`)).body.windows
    return windows.map(({ policy, remaining }) => [policy, remaining])
  }
  return { ...world, redis, ada, grant, issue, send, page, left }
}

test('pages and admin API show what gateways left of each window, and “unknown” once the right to read it is taken', async () => {
  const { redis, ada, grant, issue, send, page, left } = await started()
  const [one, other] = [await issue(), await issue()]
  await ada.browser.post(`${W}/plan`, { _csrf: ada.csrf, plan: 'free', confirmed: '1' })
  const keyPage = `${W}/keys/${one.key.id}`
  expect(await page(keyPage)).toContain('Limit 50 an hour Left 50 Window ends not begun')
  await send(one.secret, 7)
  await send(other.secret, 2)

  expect(await left(`/keys/${one.key.id}`)).toEqual([
    ['hourly', 43],
    ['quota', 9_991],
  ])
  expect(await left(`/keys/${other.key.id}`)).toEqual([
    ['hourly', 48],
    ['quota', 9_991],
  ])
  expect(await left(W)).toEqual([['quota', 9_991]])
  const shown = await page(keyPage)
  expect(shown).toContain('The limits of plan free .')
  expect(shown).toMatch(
    /hourly Counts this key Limit 50 an hour Left 43 Window ends in (?:1 hour|\d+ minutes)/,
  )
  expect(shown).toContain(
    'quota Counts all keys of the workspace Limit 10,000 a month Left 9,991 Window ends in',
  )
  const ofWorkspace = await page(`${W}/usage`)
  expect(ofWorkspace).toContain('Left 9,991')
  expect(ofWorkspace).not.toContain('hourly')

  await grant()
  expect(await left(`/keys/${one.key.id}`)).toEqual([
    ['hourly', null],
    ['quota', null],
  ])
  for (const path of [keyPage, `${W}/usage`]) {
    const text = await page(path)
    expect(text).toContain('may not read the counters: grant it (~postern:limit:* +getrange +pttl)')
    expect(text).toContain('Left unknown')
  }
  // A command that is denied would replace the connection, and heartbeats with it.
  expect(await redis.admin.call('ACL', 'LOG')).toEqual([])

  await grant(selectorOf(COUNTER_RIGHTS))
  expect(await left(W)).toEqual([['quota', 9_991]])
  await redis.stop()
  expect(await left(W)).toEqual([['quota', null]])
  expect(await page(keyPage)).toContain('Redis gave this console no usable answer')
})
