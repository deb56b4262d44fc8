import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { digestKey, importSigningSecret, mintSecret } from '../../src/domain/key/secret.ts'
import { exampleRecord } from '../domain/examples.ts'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { exchange, field, get, type RawAnswer } from '../support/raw-client.ts'
import { RecordingUpstream } from '../support/recording-upstream.ts'
import { answer, KEY_SERVICE_TOKEN, ScriptedKeyService } from '../support/scripted-key-service.ts'

/** The whole of page one, without Redis and without a console: a key service of another maker is enough. */
const PATH = '/api/v1/workspaces/ws_A'
const FILES = `${PATH}/files`
const DAY_MS = 86_400_000
const POLICIES = [{ name: 'few', per: 'workspace', route: 'files', requests: 3, windowSeconds: 3600 }]
const SECRET = randomBytes(32)
const SIGNING_KEY = importSigningSecret(SECRET)
const keyOf = (byte: number) => mintSecret('wsk_', Buffer.alloc(32, byte), SIGNING_KEY).reveal()
const KEY = keyOf(1)
const [EXPIRED, REVOKED, SUSPENDED, NARROW, ELSEWHERE, UNKNOWN] = [2, 3, 4, 5, 6, 7].map(keyOf)
const RECORDS = {
  [KEY]: { id: 'key_1' },
  [EXPIRED ?? '']: { id: 'key_2', expiresAtMs: Date.now() - DAY_MS },
  [REVOKED ?? '']: { id: 'key_3', revokedAtMs: Date.now() - DAY_MS },
  [SUSPENDED ?? '']: { id: 'key_4', suspendedAtMs: Date.now() - DAY_MS },
  [NARROW ?? '']: { id: 'key_5', scopes: ['workspace:read'] },
  [ELSEWHERE ?? '']: { id: 'key_6', allowedCidrs: ['192.0.2.0/24'] },
}

let keyService: ScriptedKeyService
let upstream: RecordingUpstream
let gateway: Listening

beforeAll(async () => {
  keyService = await ScriptedKeyService.start()
  upstream = await RecordingUpstream.start()
  for (const [key, changes] of Object.entries(RECORDS)) {
    keyService.records.set(digestKey(key), exampleRecord({ expiresAtMs: Date.now() + DAY_MS, ...changes }))
  }
  gateway = await startPostern('gateway', {
    POSTERN_KEYS_SIGNING_SECRETS: SECRET.toString('base64'),
    POSTERN_KEY_SERVICE_URL: keyService.url,
    POSTERN_KEY_SERVICE_TOKEN: KEY_SERVICE_TOKEN,
    POSTERN_UPSTREAM_URL: upstream.url,
    POSTERN_DRAIN_DELAY_MS: '0',
    POSTERN_LIMITS_POLICIES: JSON.stringify(POLICIES),
    POSTERN_GATEWAY_CHECK_PORT: '0',
    POSTERN_GATEWAY_CHECK_HOST: '127.0.0.1',
    POSTERN_GATEWAY_CHECK_PROXY: 'nginx',
    POSTERN_GATEWAY_TRUSTED_PROXIES: '127.0.0.1/32',
  })
})
afterAll(async () => {
  await gateway?.process.stop()
  await upstream?.stop()
  await keyService?.stop()
})
beforeEach(() => {
  upstream.reset()
  keyService.script = (request, response) => keyService.byTheContract(request, response)
})

const send = (bytes: string): Promise<RawAnswer> => exchange(gateway.urls.gateway, bytes)

/** Status, code, and whether the connection closes. */
async function summary(bytes: string): Promise<string> {
  const response = await send(bytes)
  const { code } = JSON.parse(response.body) as { code?: string }
  expect(field(response, 'content-type')).toBe('application/json; charset=utf-8')
  expect(field(response, 'cache-control')).toBe('no-store')
  expect(field(response, 'x-content-type-options')).toBe('nosniff')
  expect(field(response, 'x-request-id')).toMatch(/.{8,}/)
  return `${response.status} ${code} ${field(response, 'connection')}`
}

const withBody = (bytes: string) => bytes.replace('\r\n\r\n', '\r\nContent-Length: 2\r\n\r\n{}')
const put = (bytes: string) => bytes.replace('GET', 'PUT')

test('every check answers with its own status and code, in the format of the gateway', async () => {
  const expected: readonly [string, string][] = [
    ['GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n', '400 invalid_request close'],
    [get('/api/v1/nowhere', KEY), '404 not_found keep-alive'],
    [get(`${PATH}/`, KEY), '404 not_found keep-alive'],
    [put(get(PATH, KEY)), '405 method_not_allowed keep-alive'],
    [withBody(put(get(PATH, KEY))), '405 method_not_allowed close'],
    [withBody(get(PATH, KEY)), '400 invalid_request close'],
    [get(PATH), '401 key_missing keep-alive'],
    [get(PATH, 'wsk_short'), '401 key_invalid keep-alive'],
    [get(PATH, UNKNOWN), '401 key_invalid keep-alive'],
    [get(PATH, `${KEY.slice(0, -1)}_`), '401 key_invalid keep-alive'],
    [get(PATH, EXPIRED), '401 key_expired keep-alive'],
    [get(PATH, REVOKED), '401 key_revoked keep-alive'],
    [get(PATH, SUSPENDED), '401 key_suspended keep-alive'],
    [get('/api/v1/workspaces/ws_B', KEY), '404 not_found keep-alive'],
    [get(PATH, ELSEWHERE), '403 address_not_allowed keep-alive'],
    [get(FILES, NARROW), '403 scope_missing keep-alive'],
    [get(`${PATH}?x=1`, KEY), '400 invalid_request keep-alive'],
  ]
  const received: [string, string][] = []
  for (const [bytes] of expected) received.push([bytes, await summary(bytes)])
  expect(received).toEqual(expected)
  expect(upstream.requests).toEqual([])
})

test('a 401 says how to authenticate, and what is wrong with a key', async () => {
  const challengeOf = async (bytes: string) => field(await send(bytes), 'www-authenticate')
  const missing = await challengeOf(get(PATH))
  expect(missing).toMatch(/^Bearer realm="[^"]+"$/)
  const invalid = 'error="invalid_token", error_description="The API key is not valid"'
  expect(await challengeOf(get(PATH, UNKNOWN))).toBe(`${missing}, ${invalid}`)
  expect(await challengeOf(get('/api/v1/nowhere', KEY))).toBeUndefined()
})

test('a denial names what a client needs to change', async () => {
  const textOf = async (bytes: string) => (JSON.parse((await send(bytes)).body) as { error: string }).error
  expect(await textOf(get(`${PATH}?x=1`, KEY))).toContain('This endpoint takes no query parameters')
  expect(await textOf(get(FILES, NARROW))).toContain('files:read')
  expect(await textOf(get(PATH, ELSEWHERE, 'X-Forwarded-For: 192.0.2.7'))).toBeUndefined()
})

test('a permitted request reaches the upstream with the identity of its key, or is answered by the gateway', async () => {
  const forwarded = await send(get(PATH, KEY, 'X-Request-Id: own-id'))
  expect([forwarded.status, forwarded.body]).toEqual([200, '{"id":"ws_1"}'])
  expect(field(forwarded, 'x-request-id')).toBe('own-id')
  expect(upstream.requests).toHaveLength(1)
  expect(upstream.requests[0]).toMatch(/^GET \/api\/v1\/workspaces\/ws_A HTTP\/1\.1\r\n/)
  expect(upstream.requests[0]?.toLowerCase()).toContain('x-postern-key-id: key_1\r\n')
  const own = await send(get('/api/v1/auth', KEY))
  expect([own.status, JSON.parse(own.body)]).toMatchObject([200, { workspaceId: 'ws_A', keyId: 'key_1' }])
  expect(field(own, 'content-type')).toBe('application/json; charset=utf-8')
  expect(field(own, 'cache-control')).toBe('no-store')
  expect(field(own, 'x-content-type-options')).toBe('nosniff')
  expect(upstream.requests).toHaveLength(1)
})

test('a failing key service is no reason to say that a key is wrong', async () => {
  keyService.script = (_, response) => answer(response, 500, '{}')
  const response = await send(get(PATH, keyOf(9)))
  expect([response.status, JSON.parse(response.body)]).toMatchObject([503, { code: 'key_store_unavailable' }])
  expect(field(response, 'retry-after')).toMatch(/^[1-9]\d*$/)
})

test('requests above a limit are rejected until the window ends, and each response says what is left', async () => {
  for (let count = 0; count < 3; count++) await send(get(FILES, KEY))
  const limited = await send(get(FILES, KEY))
  expect(limited.status).toBe(429)
  expect(JSON.parse(limited.body)).toMatchObject({ code: 'rate_limited' })
  expect(field(limited, 'ratelimit-policy')).toBe('"few";q=3;w=3600')
  expect(field(limited, 'ratelimit')).toMatch(/^"few";r=0;t=\d{1,4}$/)
  expect((await send(get(PATH, KEY))).status).toBe(200)
})

test('in check mode a proxy learns the same of the request that it holds', async () => {
  const check = (target: string, ...lines: string[]) =>
    exchange(
      gateway.urls.check,
      get('/', KEY, `X-Original-URI: ${target}`, 'X-Original-Method: GET', ...lines),
    )
  const permitted = await check(PATH)
  expect([permitted.status, permitted.body]).toEqual([200, ''])
  expect(field(permitted, 'x-postern-workspace-id')).toBe('ws_A')
  expect(field(permitted, 'cache-control')).toBe('no-store')
  const denied = await check('/api/v1/workspaces/ws_B')
  expect(denied.status).toBeGreaterThanOrEqual(400)
  expect(field(denied, 'x-postern-workspace-id')).toBeUndefined()
  const changed = await check(`${PATH}?`)
  expect(changed.status).toBeGreaterThanOrEqual(400)
  const without = await exchange(gateway.urls.check, get('/', KEY))
  expect(without.status).toBeGreaterThanOrEqual(400)
  expect(upstream.requests).toEqual([])
})
