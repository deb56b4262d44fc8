import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { HELD_MS, HOLDING_TIMES, letPass } from '../support/held-times.ts'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { exchange, field, fingerprint, get, type RawAnswer } from '../support/raw-client.ts'
import { scrape, sumOf } from '../support/scrape.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const PATH = '/api/v1/workspaces/ws_1'
const FILES = `${PATH}/files`
const POLICIES = [{ name: 'few', per: 'workspace', route: 'files', requests: 2, windowSeconds: 3600 }]
const COMMON = {
  POSTERN_GATEWAY_CHECK_PORT: '0',
  POSTERN_GATEWAY_CHECK_HOST: '127.0.0.1',
  POSTERN_GATEWAY_TRUSTED_PROXIES: '127.0.0.1/32',
  POSTERN_LIMITS_POLICIES: JSON.stringify(POLICIES),
}

let world: World
let envoy: Listening
let key: IssuedKey

beforeAll(async () => {
  world = await startWorld({ ...COMMON, POSTERN_GATEWAY_CHECK_PROXY: 'nginx' })
  const settings = { POSTERN_GATEWAY_CHECK_PROXY: 'envoy', POSTERN_GATEWAY_CHECK_PATH_PREFIX: '/check' }
  envoy = await startPostern('gateway', { ...world.env, ...COMMON, ...settings })
  key = await world.issue()
})
afterAll(async () => {
  await envoy?.process.stop()
  await world?.stop()
})

const bearer = (secret: string) => `Authorization: Bearer ${secret}`

/** A check as nginx sends it: the location of its own, and the original request in headers. */
const fromNginx = (...lines: readonly string[]) =>
  exchange(world.gateway.urls.check, get('/', undefined, ...lines))
const original = (target: string, method = 'GET') => [
  `X-Original-Method: ${method}`,
  `X-Original-URI: ${target}`,
]

/** A check as Envoy sends it: the request line of its client behind the prefix, an empty body, the allowed headers. */
const fromEnvoy = (bytes: string) =>
  exchange(
    envoy.urls.check,
    bytes.replace(' /', ' /check/').replace('\r\n\r\n', '\r\ncontent-length: 0\r\n\r\n'),
  )

const jsonOf = (answer: RawAnswer) => JSON.parse(answer.body) as { code: string }

test('a permitted request gets 200 with the identity of its key, and is not forwarded', async () => {
  world.upstream.reset()
  const answers = [
    await fromNginx(...original(PATH), bearer(key.secret), 'X-Request-Id: own-id'),
    await fromEnvoy(get(PATH, key.secret, 'X-Request-Id: own-id')),
  ]
  for (const answer of answers) {
    expect([answer.status, answer.body]).toEqual([200, ''])
    expect(field(answer, 'x-postern-workspace-id')).toBe('ws_1')
    expect(field(answer, 'x-postern-key-id')).toBe(key.id)
    expect(field(answer, 'x-postern-scopes')).toBe('files:read workspace:read')
    expect(field(answer, 'x-request-id')).toBe('own-id')
  }
  expect(world.upstream.requests).toEqual([])
})

/** Each row fails the check of its name and all later ones that it can. */
const DENIED: readonly [name: string, bytes: (ours: string) => string][] = [
  ['2 the path', () => get('/api/v1/nowhere')],
  ['2 an ambiguous path', ours => get(`${PATH}/../ws_1`, ours)],
  ['3 the method', () => get(PATH).replace('GET', 'DELETE')],
  ['4 no credential', () => get(`${PATH}?x=1`)],
  ['4 two credentials', ours => get(PATH, ours, bearer(ours))],
  ['5 a key of another form', () => get(`${PATH}?x=1`, 'wsk_wrong')],
  ['6 another workspace', ours => get('/api/v1/workspaces/ws_2/files?x=1', ours)],
  ['8 the query', ours => get(`${FILES}?limit=0`, ours)],
  ['8 a parameter twice', ours => get(`${FILES}?limit=1&limit=2`, ours)],
]

describe('a denial is the one of the public listener, byte for byte', () => {
  test.each(DENIED)('%s', async (_, bytes) => {
    const ours = await exchange(envoy.urls.gateway, bytes(key.secret))
    expect(fingerprint(await fromEnvoy(bytes(key.secret)))).toBe(fingerprint(ours))
  })

  test('7 the scope, and a revoked key', async () => {
    const scoped = await world.issue({ scopes: ['workspace:read'] })
    const denied = await fromEnvoy(get(`${FILES}?x=1`, scoped.secret))
    expect([denied.status, jsonOf(denied).code, field(denied, 'www-authenticate')]).toEqual([
      403,
      'scope_missing',
      'Bearer realm="postern", error="insufficient_scope", scope="files:read"',
    ])
    await world.revoke(scoped.id)
    expect(jsonOf(await fromEnvoy(get(PATH, scoped.secret))).code).toBe('key_revoked')
  })
})

describe('nginx gets each denial as 401 or 403, and in headers what its clients get', () => {
  test.each<[code: string, status: number, original: readonly string[], asNginxSeesIt: number]>([
    ['not_found', 404, original('/api/v1/nowhere'), 403],
    ['method_not_allowed', 405, original(PATH, 'HEAD'), 403],
    ['method_not_allowed', 405, original(PATH, 'get'), 403],
    ['key_missing', 401, original(PATH), 401],
    ['request_too_large', 414, original(`${PATH}?${'a'.repeat(8200)}`), 403],
    ['invalid_request', 400, [], 403],
    ['invalid_request', 400, ['X-Original-Method: GET'], 403],
    ['invalid_request', 400, [...original(PATH), 'X-Original-URI: /api/v1/auth'], 403],
    ['invalid_request', 400, [...original(PATH), 'x-original-method: GET'], 403],
    ['invalid_request', 400, ['X-Forwarded-Method: GET', `X-Forwarded-Uri: ${PATH}`], 403],
  ])('%s %i', async (code, status, lines, asNginxSeesIt) => {
    const answer = await fromNginx(...lines)
    expect([answer.status, answer.body]).toEqual([asNginxSeesIt, ''])
    expect([field(answer, 'x-postern-code'), field(answer, 'x-postern-status')]).toEqual([
      code,
      String(status),
    ])
    const denial = JSON.parse(field(answer, 'x-postern-body') ?? '')
    expect(denial).toMatchObject({ code })
    if (status === 400) expect(denial.error).toContain('which method and which target the client asked for')
    expect(field(answer, 'www-authenticate')).toBe(status === 401 ? 'Bearer realm="postern"' : undefined)
    expect(field(answer, 'allow')).toBe(status === 405 ? 'GET' : undefined)
  })

  test('also where no parser could read the check', async () => {
    const answer = await exchange(world.gateway.urls.check, get('/', undefined, `X: ${'a'.repeat(30_000)}`))
    expect([answer.status, field(answer, 'x-postern-status')]).toEqual([403, '431'])
  })
})

describe('what the proxy would forward in another form than the gateway is refused', () => {
  test.each<[what: string, target: string, lines: (ours: string) => readonly string[]]>([
    ['a question mark without a query', `${PATH}?`, () => []],
    ['a key in a cookie', PATH, ours => [`Cookie: a=${ours}`]],
    ['a key in a header that upstreams log', PATH, ours => [`Referer: http://x/?${ours}`]],
    ['a variant of an identity header', PATH, () => ['X_Postern_Workspace_Id: ws_2']],
  ])('%s', async (_, target, lines) => {
    const answer = await fromEnvoy(get(target, key.secret, ...lines(key.secret)))
    expect([answer.status, jsonOf(answer).code]).toEqual([400, 'invalid_request'])
  })
})

test('Envoy without its prefix is refused, and so is a target that only a header names', async () => {
  const bytes = get(
    PATH,
    key.secret,
    ...original(PATH),
    'X-Forwarded-Method: GET',
    `X-Forwarded-Uri: ${PATH}`,
  )
  expect((await exchange(envoy.urls.check, bytes)).status).toBe(400)
  expect((await fromEnvoy(bytes.replace(`GET ${PATH}`, 'GET /api/v1/workspaces/ws_2'))).status).toBe(404)
})

test('an address that a trusted proxy names counts for allowedCidrs', async () => {
  const local = await world.issue({ allowedCidrs: ['192.0.2.0/24'] })
  const from = (address: string) => fromEnvoy(get(PATH, local.secret, `X-Forwarded-For: ${address}`))
  expect((await from('192.0.2.7')).status).toBe(200)
  expect(jsonOf(await from('198.51.100.7')).code).toBe('address_not_allowed')
})

test('checks count towards rate limits, metrics and the access log like requests', async () => {
  const { secret } = await world.issue({ workspaceId: 'ws_few' })
  const target = '/api/v1/workspaces/ws_few/files'
  const before = await scrape(world.gateway.urls.ops)
  const answers = []
  for (let count = 0; count < 3; count++) {
    answers.push(await fromNginx(...original(target), bearer(secret), `X-Request-Id: check-${count}`))
  }
  expect(answers.map(answer => [answer.status, field(answer, 'x-postern-status')])).toEqual([
    [200, undefined],
    [200, undefined],
    [403, '429'],
  ])
  expect(answers.map(answer => field(answer, 'ratelimit')?.split(';t=')[0])).toEqual([
    '"few";r=1',
    '"few";r=0',
    '"few";r=0',
  ])
  expect(Number(answers[2] && field(answers[2], 'retry-after'))).toBeGreaterThan(0)

  const line = await world.gateway.process.logged(entry => entry['requestId'] === 'check-2')
  expect(line).toMatchObject({
    method: 'GET',
    route: 'files',
    status: 429,
    reason: 'rate_limited',
    workspaceId: 'ws_few',
  })
  const after = await scrape(world.gateway.urls.ops)
  const increase = (...labels: string[]) =>
    sumOf(after, 'postern_http_requests_total', ...labels) -
    sumOf(before, 'postern_http_requests_total', ...labels)
  expect(increase('route="files"', 'code="200"', 'source="gateway"')).toBe(2)
  expect(increase('route="files"', 'code="429"')).toBe(1)
})

test('a drain announces its end on both listeners, and loses no check', async () => {
  const env = {
    ...world.env,
    ...COMMON,
    POSTERN_GATEWAY_CHECK_PROXY: 'caddy',
    POSTERN_DRAIN_DELAY_MS: HELD_MS,
  }
  const leaving = await startPostern('gateway', env, [], [process.execPath, ...HOLDING_TIMES])
  const check = () =>
    exchange(leaving.urls.check, get('/', key.secret, 'X-Forwarded-Method: GET', `X-Forwarded-Uri: ${PATH}`))
  expect(field(await check(), 'connection')).toBe('keep-alive')
  const stopped = leaving.process.stop('SIGTERM')
  await leaving.process.logged(entry => entry['msg'] === 'draining')
  const answer = await check()
  expect([answer.status, field(answer, 'connection')]).toEqual([200, 'close'])
  letPass(leaving.process)
  expect((await stopped).code).toBe(0)
})
