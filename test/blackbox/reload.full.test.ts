import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { importSigningSecret } from '../../src/domain/key/secret.ts'
import { freePort } from '../support/free-port.ts'
import { isWellFormedKey } from '../support/is-well-formed-key.ts'
import { Parts } from '../support/parts.ts'
import type { Listening } from '../support/postern-process.ts'
import { readiness, untilConnected } from '../support/readiness.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { CONSOLE_RIGHTS, GATEWAY_RIGHTS } from '../support/redis-users.ts'
import { scrapeOne } from '../support/scrape.ts'
import { SecretMount } from '../support/secret-mount.ts'
import { SteadyLoad, send } from '../support/steady-load.ts'
import { until } from '../support/until.ts'

/** Secrets change while processes run, in files swapped as Kubernetes swaps them. No process restarts. */
const token = () => randomBytes(24).toString('base64url')
const [A, B] = [randomBytes(32), randomBytes(32)]
const list = (...secrets: Buffer[]) => `${secrets.map(secret => secret.toString('base64')).join('\n')}\n`
const SUCCESS = 'postern_config_last_reload_success'
const TIMESTAMP = 'postern_config_last_reload_timestamp_seconds'

const parts = new Parts()
let redis: RedisServer
let secrets: SecretMount
let adminToken = token()
let redisPassword = token()
let console: Listening
let gateway: Listening
let load: SteadyLoad

beforeAll(async () => {
  redis = await parts.redis()
  await redis.addUser('gateway', 'reset', 'on', `>${redisPassword}`, ...GATEWAY_RIGHTS.standalone)
  await redis.addUser('console', 'reset', 'on', `>${redisPassword}`, ...CONSOLE_RIGHTS.standalone)
  secrets = new SecretMount({
    signing: list(A),
    admin: adminToken,
    keyService: token(),
    redis: redisPassword,
  })
  const port = String(await freePort())
  const env = {
    POSTERN_REDIS_URL: redis.url,
    POSTERN_REDIS_PASSWORD_FILE: secrets.file('redis'),
    POSTERN_KEY_SERVICE_TOKEN_FILE: secrets.file('keyService'),
    POSTERN_KEY_SERVICE_URL: `http://127.0.0.1:${port}`,
    POSTERN_KEYS_SIGNING_SECRETS_FILE: secrets.file('signing'),
    POSTERN_UPSTREAM_URL: 'http://127.0.0.1:1',
    // Those in files stand for the secrets that parts share.
    POSTERN_KEY_SERVICE_TOKEN: undefined,
    POSTERN_KEYS_SIGNING_SECRETS: undefined,
    POSTERN_RELOAD_EVERY_SECONDS: '0.1',
    // So that records are read all the time, not once in the whole test.
    POSTERN_KEYS_MEMORY_TTL_SECONDS: '0.2',
    // Those that a busy machine makes late must not fail.
    POSTERN_KEY_SERVICE_TIMEOUT_MS: '60000',
  }
  console = await parts.console({
    ...env,
    POSTERN_ADMIN_TOKEN: undefined,
    POSTERN_REDIS_USERNAME: 'console',
    POSTERN_CONSOLE_INTERNAL_PORT: port,
    POSTERN_ADMIN_TOKEN_FILE: secrets.file('admin'),
    POSTERN_DATABASE_URL: 'sqlite::memory:',
  })
  gateway = await parts.gateway({ ...env, POSTERN_REDIS_USERNAME: 'gateway' })
  await untilConnected(gateway)
  load = new SteadyLoad(2)
  load.join(gateway.urls.gateway)
})
afterAll(async () => {
  await load.stop()
  await parts.stop()
  secrets.remove()
})

/** Swaps files and waits until their readers report that they reloaded them. */
async function swap(files: Readonly<Record<string, string>>, readers = [console, gateway]): Promise<void> {
  const before = await Promise.all(readers.map(({ urls }) => scrapeOne(urls.ops, TIMESTAMP)))
  secrets.swap(files)
  for (const [index, { urls }] of readers.entries()) {
    await until(
      'the files are reloaded',
      async () => (await scrapeOne(urls.ops, TIMESTAMP)) > (before[index] ?? 0),
    )
  }
}

async function issue(bearer = adminToken): Promise<{ status: number; id: string; secret: string }> {
  const response = await fetch(`${console.urls.console}/admin/v1/workspaces/ws_1/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'test', scopes: ['files:read'] }),
  })
  const json = (await response.json()) as { key?: { id: string }; secret?: string }
  return { status: response.status, id: json.key?.id ?? '', secret: json.secret ?? '' }
}

const isSignedBy = (key: string, secret: Buffer) =>
  isWellFormedKey(key, { kind: 'signed', prefix: 'wsk_', signingKeys: [importSigningSecret(secret)] })

test('a signing secret is replaced in three steps that no client notices', async () => {
  const old = await issue()
  load.holders.push({ name: 'signed by A', secret: old.secret, expected: '200' })
  await load.continueFor(100)
  await swap({ signing: list(A, B) })
  expect(isSignedBy((await issue()).secret, A)).toBe(true)

  await swap({ signing: list(B, A) })
  const young = await issue()
  expect(isSignedBy(young.secret, B)).toBe(true)
  load.holders.push({ name: 'signed by B', secret: young.secret, expected: '200' })
  await load.continueFor(100)
  expect(load.wrong).toEqual([])

  load.holders.shift()
  await swap({ signing: list(B) })
  expect(await send(gateway.urls.gateway, old.secret)).toBe('key_invalid')
  await load.continueFor(100)
  expect(load.wrong).toEqual([])
})

test('a replaced admin token stops working, and the new one works at once', async () => {
  const before = adminToken
  adminToken = token()
  await swap({ admin: adminToken }, [console])
  expect([(await issue(before)).status, (await issue()).status]).toEqual([401, 201])
})

test('the token between gateway and console is replaced at both ends', async () => {
  const { secret } = await issue()
  await swap({ keyService: token() })
  await redis.admin.flushall()
  expect(await send(gateway.urls.gateway, secret)).toBe('200')
})

test('a new Redis password is used for the next connection, while the old connection stays open', async () => {
  const before = redisPassword
  redisPassword = token()
  for (const user of ['gateway', 'console']) await redis.addUser(user, `>${redisPassword}`)
  const reconnects = 'postern_redis_reconnects_total'
  const made = await scrapeOne(gateway.urls.ops, reconnects)
  await swap({ redis: redisPassword })
  for (const user of ['gateway', 'console']) await redis.addUser(user, `<${before}`)
  expect(await scrapeOne(gateway.urls.ops, reconnects)).toBe(made)

  for (const user of ['gateway', 'console']) await redis.admin.call('CLIENT', 'KILL', 'USER', user)
  await until('both are connected again', async () => {
    const [one, other] = [await readiness(gateway), await readiness(console)]
    return one['redis'] === 'ok' && one['changes'] === 'connected' && other['announcer'] === 'ready'
  })
  expect(await scrapeOne(gateway.urls.ops, reconnects)).toBeGreaterThan(made)
  await load.continueFor(100)
  expect(load.wrong).toEqual([])
})

describe('invalid new values change nothing', () => {
  test.each([
    ['a signing secret that is too short', { signing: 'c2hvcnQ=\n', admin: token() }, 'SIGNING_SECRETS_FILE'],
    ['no signing secret', { signing: '' }, 'SIGNING_SECRETS_FILE'],
    ['a signing secret of zeros', { signing: list(Buffer.alloc(32)) }, 'SIGNING_SECRETS_FILE'],
    ['an empty token', { keyService: '' }, 'KEY_SERVICE_TOKEN_FILE'],
    ['a token that can be guessed', { keyService: 'guess-me-please' }, 'KEY_SERVICE_TOKEN_FILE'],
    ['a token that contains a line break', { keyService: 'two\nlines' }, 'KEY_SERVICE_TOKEN_FILE'],
  ])('%s: all previous values stay in use, and the log says why', async (_, broken, named) => {
    const good = { signing: list(B), admin: adminToken, keyService: token() }
    await swap(good)
    const saidBefore = new Map([console, gateway].map(({ process }) => [process, process.log.length]))
    await swap(broken)
    for (const { urls, process } of [console, gateway]) {
      expect(await scrapeOne(urls.ops, SUCCESS)).toBe(0)
      // The metric may be updated before the line has come through the pipe.
      const line = await until('the failure is logged', () =>
        process.log.slice(saidBefore.get(process)).findLast(({ level }) => level === 50),
      )
      expect(line).toMatchObject({ msg: 'settings reload failed, keeping the last good settings' })
      expect(line['problem']).toContain(named)
      for (const text of Object.values(broken)) {
        if (text !== '') expect(process.lines.join('\n')).not.toContain(text.trim())
      }
    }
    const { status, secret } = await issue()
    expect([status, await send(gateway.urls.gateway, secret)]).toEqual([201, '200'])
    await redis.admin.flushall()
    expect(await send(gateway.urls.gateway, secret)).toBe('200')
    await load.continueFor(50)
    expect(load.wrong).toEqual([])

    await swap(good)
    for (const { urls } of [console, gateway]) expect(await scrapeOne(urls.ops, SUCCESS)).toBe(1)
  })
})
