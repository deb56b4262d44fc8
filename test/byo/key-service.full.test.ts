import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { measured } from '../support/measured-again.ts'
import { Parts } from '../support/parts.ts'
import type { Listening } from '../support/postern-process.ts'
import { untilConnected } from '../support/readiness.ts'
import type { RecordingUpstream } from '../support/recording-upstream.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { scrapeOne } from '../support/scrape.ts'
import { answer, ScriptedKeyService } from '../support/scripted-key-service.ts'
import { until } from '../support/until.ts'
import { type KeyRecord, startKeyService } from './example-key-service.ts'

const STALE_SECONDS = 2
/** From when no key is accepted any more. */
const STALE_LIMIT_MS = (STALE_SECONDS + 1) * 1000
const SIGNING_SECRET = randomBytes(32)
const SIGNED = { POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64') }
const DAY_MS = 86_400_000

const parts = new Parts()
const { POSTERN_KEY_SERVICE_TOKEN: TOKEN = '' } = parts.shared
let redis: RedisServer
let upstream: RecordingUpstream
beforeAll(async () => {
  redis = await parts.redis()
  upstream = await parts.upstream()
})
afterAll(() => parts.stop())

/** A key in the format of another service. */
const newKey = () => `live-${randomBytes(12).toString('hex')}`

function recordOf(changes: Partial<KeyRecord> = {}): KeyRecord {
  const expiresAt = new Date(Date.now() + DAY_MS).toISOString()
  return { id: 'k-1', workspaceId: 'ws_1', scopes: ['workspace:read'], expiresAt, version: 1, ...changes }
}

const revoked = (record: KeyRecord): KeyRecord => ({
  ...record,
  revokedAt: new Date().toISOString(),
  version: record.version + 1,
})

/** These keys and records have no MAC, unless a case has signing secrets. */
function startGateway(keyServiceUrl: string, more: Record<string, string>): Promise<Listening> {
  return parts.gateway({
    POSTERN_KEYS_FORMAT: 'opaque',
    POSTERN_KEYS_SIGNING_SECRETS: undefined,
    POSTERN_KEY_SERVICE_URL: keyServiceUrl,
    POSTERN_UPSTREAM_URL: upstream.url,
    POSTERN_KEYS_STALE_SECONDS: String(STALE_SECONDS),
    ...more,
  })
}

async function send({ urls }: Listening, key: string, path = '/api/v1/auth') {
  const headers = { authorization: `Bearer ${key}` }
  const response = await fetch(`${urls.gateway}${path}`, { headers })
  const json = (await response.json()) as Record<string, unknown>
  return { status: response.status, code: json['code'], json }
}

const pidsOf = ({ process: { child } }: Listening) => [process.pid, redis.pid, child.pid ?? 0]

/** @returns for how long a revoked key was accepted, measured again while the machine starves one of the processes */
function acceptedAfterRevocationMs(
  gateway: Listening,
  service: Awaited<ReturnType<typeof startKeyService>>,
  boundMs: number,
  around = { before: () => {}, after: async () => {} },
): Promise<number> {
  return measured({
    what: 'a revoked key of a custom key service',
    pids: () => pidsOf(gateway),
    missedByMs: acceptedForMs => acceptedForMs - boundMs,
    measure: async () => {
      const key = newKey()
      await service.put(key, recordOf())
      await until('the key works', async () => (await send(gateway, key)).status === 200)
      around.before()
      const beganMs = performance.now()
      await service.put(key, revoked(recordOf()))
      await until('the key is rejected', async () => (await send(gateway, key)).code === 'key_revoked')
      const acceptedForMs = performance.now() - beganMs
      await around.after()
      return acceptedForMs
    },
  })
}

/** The settings of a case, and the signing secret of its key service. */
interface Case {
  readonly how: string
  readonly usesRedis: boolean
  readonly boundMs: number
  readonly settings: () => Record<string, string>
  readonly heartbeats: boolean
  readonly signingSecret?: Buffer
}

describe.each<Case>([
  {
    how: 'with heartbeats',
    usesRedis: true,
    boundMs: 1000,
    settings: () => ({ POSTERN_REDIS_URL: redis.url }),
    heartbeats: true,
  },
  {
    how: 'with signed heartbeats',
    usesRedis: true,
    boundMs: 1000,
    settings: () => ({ POSTERN_REDIS_URL: redis.url, ...SIGNED }),
    heartbeats: true,
    signingSecret: SIGNING_SECRET,
  },
  {
    how: 'without heartbeats',
    usesRedis: true,
    boundMs: 1000,
    settings: () => ({ POSTERN_REDIS_URL: redis.url, POSTERN_REDIS_HEARTBEATS: 'false' }),
    heartbeats: false,
  },
  // Without Redis each record is looked up again after a second.
  { how: 'without Redis', usesRedis: false, boundMs: 2000, settings: () => ({}), heartbeats: false },
])('a custom key service, $how', ({ usesRedis, boundMs, settings, heartbeats, signingSecret }) => {
  let service: Awaited<ReturnType<typeof startKeyService>>
  let gateway: Listening

  const startService = (port = 0) =>
    startKeyService({
      token: TOKEN,
      heartbeats,
      port,
      ...(usesRedis ? { redisUrl: redis.url } : {}),
      ...(signingSecret === undefined ? {} : { signingSecret }),
    })

  beforeAll(async () => {
    service = await startService()
    gateway = await startGateway(`http://127.0.0.1:${service.port}`, settings())
    if (usesRedis) await untilConnected(gateway)
  })
  afterAll(async () => {
    await gateway.process.stop()
    await service.stop()
  })

  test('a key gives access to its own workspace with its scopes, and to nothing else', async () => {
    const key = newKey()
    await service.put(key, recordOf())
    expect(await send(gateway, key)).toMatchObject({
      status: 200,
      json: { workspaceId: 'ws_1', keyId: 'k-1', scopes: ['workspace:read'] },
    })
    expect((await send(gateway, key, '/api/v1/workspaces/ws_1')).status).toBe(200)
    expect(upstream.requests.at(-1)).toContain('k-1')
    expect(upstream.requests.at(-1)).not.toContain(key)
    expect((await send(gateway, key, '/api/v1/workspaces/ws_2')).code).toBe('not_found')
    expect((await send(gateway, key, '/api/v1/workspaces/ws_1/files')).code).toBe('scope_missing')
  })

  test('an unknown key is rejected until the key service knows it', async () => {
    const key = newKey()
    expect(await send(gateway, key)).toMatchObject({ status: 401, code: 'key_invalid' })
    await service.put(key, recordOf())
    await until('the key works', async () => (await send(gateway, key)).status === 200)
  })

  test('a revoked key is rejected within the bound', async () => {
    if (usesRedis) await untilConnected(gateway)
    expect(await acceptedAfterRevocationMs(gateway, service, boundMs)).toBeLessThan(boundMs)
  })

  test('a key is rejected from its expiry on', async () => {
    const key = newKey()
    await service.put(key, recordOf({ expiresAt: new Date(Date.now() - 1000).toISOString() }))
    expect(await send(gateway, key)).toMatchObject({ status: 401, code: 'key_expired' })
    // A machine that takes longer than a key lives gets one that lives longer.
    for (let livesMs = 1500; ; livesMs *= 2) {
      const short = newKey()
      const expiresAtMs = Date.now() + livesMs
      await service.put(short, recordOf({ expiresAt: new Date(expiresAtMs).toISOString() }))
      const { status } = await send(gateway, short)
      if (Date.now() >= expiresAtMs) continue
      expect(status).toBe(200)
      await until('the key has expired', async () => (await send(gateway, short)).code === 'key_expired')
      break
    }
  })

  test('while the service is down, known keys work for a limited time, then get 503; none is called invalid', async () => {
    const key = newKey()
    await service.put(key, recordOf())
    // Otherwise a connected replica trusts its memory for half a minute.
    const forgetful = await startGateway(`http://127.0.0.1:${service.port}`, {
      ...settings(),
      POSTERN_KEYS_MEMORY_TTL_SECONDS: '0.5',
    })
    onTestFinished(async () => void (await forgetful.process.stop()))
    expect((await send(forgetful, key)).status).toBe(200)
    const { usedForMs, seen } = await measured({
      what: 'a known key while the service is down',
      pids: () => pidsOf(forgetful),
      // If no process runs for the whole time, none is seen in which the key is known.
      missedByMs: ({ usedForMs, seen }) => usedForMs - (seen.length > 1 ? STALE_LIMIT_MS : 500),
      measure: async () => {
        const { port } = service
        await service.stop()
        const beganMs = performance.now()
        expect(await send(forgetful, newKey())).toMatchObject({ status: 503, code: 'key_store_unavailable' })
        const seen = new Set<string>()
        await until('the key store is unavailable', async () => {
          const { status, code } = await send(forgetful, key)
          seen.add(code === undefined ? `${status}` : `${status} ${code}`)
          return status === 503
        })
        const usedForMs = performance.now() - beganMs
        service = await startService(port)
        await service.put(key, recordOf())
        await until('the key works', async () => (await send(forgetful, key)).status === 200)
        return { usedForMs, seen: [...seen] }
      },
    })
    expect(seen).toEqual(['200', '503 key_store_unavailable'])
    expect(usedForMs).toBeLessThan(STALE_LIMIT_MS)
  })
})

test('unsigned heartbeats do not connect a gateway with signing secrets, but keys work', async () => {
  const service = await startKeyService({ token: TOKEN, redisUrl: redis.url })
  const gateway = await startGateway(`http://127.0.0.1:${service.port}`, {
    POSTERN_REDIS_URL: redis.url,
    ...SIGNED,
  })
  const unverified = () => scrapeOne(gateway.urls.ops, 'postern_key_invalidations_total{result="unverified"}')
  const key = newKey()
  await service.put(key, recordOf())
  expect((await send(gateway, key)).status).toBe(200)
  await until('three heartbeats have arrived', async () => (await unverified()) >= 3)
  expect(await scrapeOne(gateway.urls.ops, 'postern_key_invalidation_connected')).toBe(0)
  await service.put(key, revoked(recordOf()))
  await until('the key is rejected', async () => (await send(gateway, key)).code === 'key_revoked')
  await gateway.process.stop()
  await service.stop()
})

test('a key revoked while Redis is down is rejected', async () => {
  const service = await startKeyService({ token: TOKEN, redisUrl: redis.url })
  const gateway = await startGateway(`http://127.0.0.1:${service.port}`, { POSTERN_REDIS_URL: redis.url })
  await untilConnected(gateway)
  const acceptedForMs = await acceptedAfterRevocationMs(gateway, service, 2000, {
    before: () => redis.freeze(),
    after: async () => {
      redis.thaw()
      await untilConnected(gateway)
    },
  })
  expect(acceptedForMs).toBeLessThan(2000)
  await gateway.process.stop()
  await service.stop()
})

describe('a failing key service never makes a key invalid', () => {
  let keyService: ScriptedKeyService
  let gateway: Listening
  beforeAll(async () => {
    keyService = await ScriptedKeyService.start()
    gateway = await startGateway(keyService.url, {})
  })
  afterAll(async () => {
    await gateway.process.stop()
    await keyService.stop()
  })

  test.each([
    ['500', 500, '{"code":"internal_error","error":"x"}'],
    ['500 that says not_found', 500, '{"code":"not_found","error":"x"}'],
    ['404 of another server', 404, '<h1>Not Found</h1>'],
    ['404 without a code', 404, '{"error":"no route"}'],
    ['404 with another code', 404, '{"code":"unknown_path","error":"x"}'],
    ['401, for the token is wrong', 401, '{"code":"unauthenticated","error":"x"}'],
    ['204', 204, ''],
    ['200 with nothing', 200, '{}'],
    ['200 with null', 200, 'null'],
    ['200 with a record that lacks its expiry', 200, JSON.stringify({ ...recordOf(), expiresAt: undefined })],
  ])('%s is 503', async (_, status, body) => {
    keyService.script = (_request, response) => answer(response, status, body)
    expect(await send(gateway, newKey())).toMatchObject({ status: 503, code: 'key_store_unavailable' })
  })

  test('a lookup contains the digest and the token, never the key itself', async () => {
    const key = newKey()
    keyService.script = (_request, response) => answer(response, 404, '{"code":"not_found","error":"x"}')
    expect((await send(gateway, key)).code).toBe('key_invalid')
    expect(keyService.requests.at(-1)).toEqual({
      path: `/internal/v1/keys/${digestKey(key)}`,
      authorization: `Bearer ${TOKEN}`,
    })
  })
})
