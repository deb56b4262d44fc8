import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { exchange, field, get, RawClient } from '../support/raw-client.ts'
import { jsonAnswer } from '../support/recording-upstream.ts'
import { scrape, scrapeOne, sumOf } from '../support/scrape.ts'
import { until } from '../support/until.ts'
import { ALL_SCOPES, type IssuedKey, startWorld, type World } from '../support/world.ts'

const ROUTES = [
  { name: 'auth', path: '/api/v1/auth', answeredBy: 'gateway' },
  { name: 'workspace', path: '/api/v1/workspaces/{workspaceId}', coalesce: true },
  {
    name: 'files',
    path: '/api/v1/workspaces/{workspaceId}/files',
    scope: 'files:read',
    coalesce: true,
  },
]
const SETTINGS = { POSTERN_ROUTES: JSON.stringify(ROUTES) }
const KEEPING = { ...SETTINGS, POSTERN_UPSTREAM_CACHE_MAX_BYTES: '1000000' }
const WORKSPACE = '/api/v1/workspaces/ws_1'
const FILES = `${WORKSPACE}/files`

let world: World
let key: IssuedKey
let answerAll: () => void
/** A gateway with a response cache. */
let keeper: Listening

beforeAll(async () => {
  world = await startWorld(SETTINGS)
  keeper = await startPostern('gateway', { ...world.env, ...KEEPING })
  await until(
    'the gateway is connected',
    async () => (await scrapeOne(keeper.urls.ops, 'postern_key_invalidation_connected')) === 1,
  )
  key = await world.issue()
})
afterAll(async () => {
  await keeper.process.stop()
  await world.stop()
})
/** The upstream responds when the test says so, and names the key in the response. */
beforeEach(() => {
  const { promise, resolve } = Promise.withResolvers<void>()
  world.upstream.reset()
  world.upstream.hold = () => promise
  world.upstream.answer = request => jsonAnswer(200, JSON.stringify(request.split('\r\n')))
  answerAll = resolve
})

const send = (target: string, { secret }: IssuedKey, ...lines: string[]) =>
  exchange(world.gateway.urls.gateway, get(target, secret, ...lines))
const inFlight = (count: number, opsUrl = world.gateway.urls.ops) =>
  until(
    `${count} requests are in flight`,
    async () => (await scrapeOne(opsUrl, 'postern_http_requests_in_flight')) === count,
  )
const atUpstream = (count: number) =>
  until(`${count} requests reached the upstream`, () => world.upstream.requests.length >= count)

test('keys of one workspace share a response, each with its own request id, log line and metrics', async () => {
  const other = await world.issue()
  // A request in flight whose key is not in memory may still wait for its lookup when the upstream responds.
  for (const known of [key, other]) expect((await send('/api/v1/auth', known)).status).toBe(200)
  const before = await scrape(world.gateway.urls.ops)
  const asked = [
    send(
      WORKSPACE,
      key,
      'X-Request-Id: share-a',
      'traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    ),
    send(WORKSPACE, other, 'X-Request-Id: share-b'),
    send(WORKSPACE, key, 'X-Request-Id: share-c'),
  ]
  await inFlight(3)
  answerAll()
  const answers = await Promise.all(asked)
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
  expect(new Set(answers.map(({ body }) => body)).size).toBe(1)
  expect(answers.map(answer => field(answer, 'X-Request-Id'))).toEqual(['share-a', 'share-b', 'share-c'])
  expect(world.upstream.requests).toHaveLength(1)

  const lines = await until('each request has its log line', () => {
    const found = world.gateway.process.log.filter(line => String(line['requestId']).startsWith('share-'))
    return found.length === 3 && found
  })
  expect(lines.filter(line => line['shared'] === 'joined')).toHaveLength(2)
  expect(new Set(lines.map(line => line['keyId']))).toEqual(new Set([key.id, other.id]))
  const after = await scrape(world.gateway.urls.ops)
  const grown = (name: string, ...labels: string[]) =>
    sumOf(after, name, ...labels) - sumOf(before, name, ...labels)
  expect(grown('postern_coalesced_requests_total', 'upstream')).toBe(1)
  expect(grown('postern_coalesced_requests_total', 'joined')).toBe(2)
  expect(grown('postern_http_requests_total', 'route="workspace"', 'code="200"')).toBe(3)
  expect(grown('postern_upstream_requests_total')).toBe(1)
})

test('a client that closes its side leaves a shared request to the others; the last one to leave cancels it', async () => {
  const { gateway, ops } = world.gateway.urls
  const leaver = () => {
    const client = new RawClient(gateway)
    client.send(get(WORKSPACE, key.secret))
    return client
  }
  const first = leaver()
  await atUpstream(1)
  const asked = send(WORKSPACE, key)
  await inFlight(2)
  first.socket.end()
  await inFlight(1)
  answerAll()
  expect((await asked).status).toBe(200)
  expect(world.upstream.requests).toHaveLength(1)

  world.upstream.hold = () => new Promise(() => {})
  const { ended } = world.upstream
  const leavers = [leaver(), leaver()]
  await inFlight(2)
  await atUpstream(2)
  for (const { socket } of leavers) socket.end()
  await inFlight(0, ops)
  await until('the upstream request is cancelled', () => world.upstream.ended === ended + 1)
})

test('different workspaces or scopes never share a response', async () => {
  const keys = [
    ['ws_1', ALL_SCOPES],
    ['ws_1', ['files:read']],
    ['ws_2', ALL_SCOPES],
    ['ws_3', ALL_SCOPES],
  ] as const
  const asked = await Promise.all(
    keys.map(async ([workspaceId, scopes]) => {
      const issued = await world.issue({ workspaceId, scopes: [...scopes] })
      const target = `/api/v1/workspaces/${workspaceId}/files`
      return {
        answers: [send(target, issued), send(target, issued)],
        expected: [workspaceId, scopes.join(' ')],
      }
    }),
  )
  await inFlight(2 * keys.length)
  await atUpstream(keys.length)
  answerAll()
  for (const { answers, expected } of asked) {
    for (const { body } of await Promise.all(answers)) {
      const said = new Map((JSON.parse(body) as string[]).map(line => line.split(': ') as [string, string]))
      expect([said.get('x-postern-workspace-id'), said.get('x-postern-scopes')]).toEqual(expected)
    }
  }
  expect(world.upstream.requests).toHaveLength(keys.length)
})

test('every request is authorized by itself: one without permission is rejected at once, also while others wait', async () => {
  const [revoked, unscoped] = await Promise.all([world.issue(), world.issue({ scopes: ['workspace:read'] })])
  const foreign = await world.issue({ workspaceId: 'ws_9' })
  await world.revoke(revoked.id)
  const asked = [send(FILES, key), send(FILES, key)]
  await inFlight(2)
  const [last] = [...key.secret].reverse()
  const forged = { id: '', secret: key.secret.slice(0, -1) + (last === 'a' ? 'b' : 'a') }
  const refused = await Promise.all([revoked, unscoped, foreign, forged].map(other => send(FILES, other)))
  expect(refused.map(({ status, body }) => [status, JSON.parse(body).code])).toEqual([
    [401, 'key_revoked'],
    [403, 'scope_missing'],
    [404, 'not_found'],
    [401, 'key_invalid'],
  ])
  answerAll()
  expect((await Promise.all(asked)).map(({ status }) => status)).toEqual([200, 200])
  expect(world.upstream.requests).toHaveLength(1)
})

test('a key revoked while its request waits still gets that response, but no later one', async () => {
  const leaving = await world.issue()
  const asked = [send(WORKSPACE, leaving), send(WORKSPACE, leaving), send(WORKSPACE, key)]
  await inFlight(3)
  await world.revoke(leaving.id)
  await until(
    'the gateway has applied the revocation',
    async () => (await send('/api/v1/auth', leaving)).status === 401,
  )
  const late = await send(WORKSPACE, leaving)
  expect([late.status, JSON.parse(late.body).code]).toEqual([401, 'key_revoked'])
  answerAll()
  // Their requests were permitted when they arrived; the revocation of the first key does not affect the third.
  expect((await Promise.all(asked)).map(({ status }) => status)).toEqual([200, 200, 200])
  expect(world.upstream.requests).toHaveLength(1)
})

test('a draining gateway responds to every waiter of a shared response', async () => {
  const gateway = await startPostern('gateway', { ...world.env, ...SETTINGS })
  const asked = Array.from({ length: 5 }, () => exchange(gateway.urls.gateway, get(WORKSPACE, key.secret)))
  await inFlight(5, gateway.urls.ops)
  const stopped = gateway.process.stop('SIGTERM')
  await gateway.process.logged(line => line['msg'] === 'draining')
  answerAll()
  expect((await Promise.all(asked)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
  expect((await stopped).code).toBe(0)
  expect(world.upstream.requests).toHaveLength(1)
})

const askKeeper = (target: string, { secret }: IssuedKey, ...lines: string[]) =>
  exchange(keeper.urls.gateway, get(target, secret, ...lines))
/** The upstream allows caching for longer than the test takes. */
function keepable(): void {
  world.upstream.hold = () => undefined
  world.upstream.answer = request =>
    jsonAnswer(200, JSON.stringify(request.split('\r\n')), 'Cache-Control: max-age=600', 'ETag: "7"')
}

test('a cached response is served to keys of the same workspace and scopes, and to no other', async () => {
  keepable()
  const [same, unscoped, foreign] = await Promise.all([
    world.issue({ workspaceId: 'ws_k' }),
    world.issue({ workspaceId: 'ws_k', scopes: ['files:read'] }),
    world.issue({ workspaceId: 'ws_l' }),
  ])
  const owner = await world.issue({ workspaceId: 'ws_k' })
  const target = '/api/v1/workspaces/ws_k/files'
  const first = await askKeeper(target, owner)
  const again = await askKeeper(target, same, 'X-Request-Id: kept-1')
  expect([again.status, again.body]).toEqual([200, first.body])
  expect([field(again, 'X-Request-Id'), field(again, 'Age')]).toEqual(['kept-1', '0'])
  const line = await keeper.process.logged(entry => entry['requestId'] === 'kept-1')
  expect(line).toMatchObject({ shared: 'cache', keyId: same.id, status: 200, upstreamMs: 0 })
  expect(world.upstream.requests).toHaveLength(1)

  expect((await askKeeper(target, foreign)).status).toBe(404)
  const other = await askKeeper(target, unscoped)
  expect(JSON.parse(other.body)).toContain('x-postern-scopes: files:read')
  const elsewhere = await askKeeper('/api/v1/workspaces/ws_l/files', foreign)
  expect(JSON.parse(elsewhere.body)).toContain('x-postern-workspace-id: ws_l')
  expect(world.upstream.requests).toHaveLength(3)
})

test('a cached response is never served to a revoked key or one without the scope', async () => {
  keepable()
  const workspaceId = 'ws_m'
  const target = `/api/v1/workspaces/${workspaceId}/files`
  const [revoked, unscoped, good] = await Promise.all([
    world.issue({ workspaceId }),
    world.issue({ workspaceId, scopes: ['workspace:read'] }),
    world.issue({ workspaceId }),
  ])
  for (const each of [revoked, good]) {
    await askKeeper(target, each)
    expect((await askKeeper(target, each)).status).toBe(200)
  }
  expect(world.upstream.requests).toHaveLength(1)
  await world.revoke(revoked.id)
  await until(
    'the gateway has applied the revocation',
    async () => (await askKeeper(target, revoked)).status === 401,
  )
  expect(JSON.parse((await askKeeper(target, revoked)).body).code).toBe('key_revoked')
  expect(JSON.parse((await askKeeper(target, unscoped)).body).code).toBe('scope_missing')
  expect(JSON.parse((await askKeeper(target, unscoped, 'If-None-Match: "7"')).body).code).toBe(
    'scope_missing',
  )
  // Valid keys still get the response that the revoked key's request cached.
  expect((await askKeeper(target, good)).status).toBe(200)
  expect(world.upstream.requests).toHaveLength(1)
})
