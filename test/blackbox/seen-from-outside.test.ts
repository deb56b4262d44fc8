import type { Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { exchange, get, RawClient } from '../support/raw-client.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

let world: World
let key: IssuedKey
const WORKSPACE = '/api/v1/workspaces/ws_1'
const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

beforeAll(async () => {
  world = await startWorld()
  key = await world.issue()
})
afterAll(() => world.stop())

const send = (bytes: string) => exchange(world.gateway.urls.gateway, bytes)
const metrics = async () => (await fetch(`${world.gateway.urls.ops}/metrics`)).text()
const sample = async (name: string) =>
  Number(
    (await metrics())
      .split('\n')
      .find(line => line.startsWith(`${name} `))
      ?.slice(name.length + 1),
  )

describe('logs', () => {
  test("there is one line per request, however it ends, with the key's id and never a secret", async () => {
    const canary = 'canary-in-a-place-where-a-key-was-put-by-mistake'
    const lines = [
      `Cookie: ${canary}`,
      `Proxy-Authorization: ${canary}`,
      `Referer: http://x/?k=${canary}`,
      `X: ${canary}`,
    ]
    await send(get(WORKSPACE, key.secret, 'X-Request-Id: line-1', ...lines))
    await send(get(`${WORKSPACE}?access_token=${key.secret}`, key.secret, 'X-Request-Id: line-2'))
    await send(get(`/api/v1/${key.secret}`, key.secret, 'X-Request-Id: line-3'))
    await send(get('/api/v1/auth', `${key.secret}x`, 'X-Request-Id: line-4'))
    const { process } = world.gateway
    for (const id of ['line-1', 'line-2', 'line-3', 'line-4'])
      await process.logged(line => line['requestId'] === id)
    const of = (id: string) => process.log.filter(line => line['requestId'] === id)
    expect(of('line-1')).toMatchObject([
      {
        msg: 'request',
        route: 'workspace',
        status: 200,
        source: 'upstream',
        keyId: key.id,
        workspaceId: 'ws_1',
      },
    ])
    expect(of('line-2')).toMatchObject([{ route: 'workspace', status: 400, reason: 'invalid_query' }])
    expect(of('line-3')).toMatchObject([{ route: 'none', status: 404, reason: 'unknown_route' }])
    expect(of('line-4')).toMatchObject([{ route: 'auth', status: 401, reason: 'key_malformed' }])
    const everything = [...process.lines, ...world.console.process.lines].join('\n')
    expect(everything).not.toContain(key.secret)
    expect(everything).not.toContain(canary)
    for (const line of process.lines) expect(() => JSON.parse(line) as unknown).not.toThrow()
  })

  test.each([
    ['closes its connection', (socket: Socket) => socket.destroy()],
    ['closes its side', (socket: Socket) => socket.end()],
    ['resets its connection', (socket: Socket) => socket.resetAndDestroy()],
  ])('a client that %s is counted and logged, and the upstream request is cancelled', async (way, leave) => {
    world.upstream.reset()
    world.upstream.hold = () => new Promise(() => {})
    const aborts = () => sample('postern_http_client_aborts_total{phase="waiting"}')
    const [before, { ended }] = [await aborts(), world.upstream]
    const client = new RawClient(world.gateway.urls.gateway)
    const requestId = way.replaceAll(' ', '-')
    client.send(get(WORKSPACE, key.secret, `X-Request-Id: ${requestId}`))
    await expect.poll(() => world.upstream.requests.length).toBe(1)
    leave(client.socket)
    const line = await world.gateway.process.logged(entry => entry['requestId'] === requestId)
    expect(line).toMatchObject({ aborted: 'waiting', keyId: key.id })
    expect(await aborts()).toBe(before + 1)
    await expect.poll(() => world.upstream.ended).toBe(ended + 1)
    expect(client.received.length).toBe(0)
    world.upstream.reset()
  })
})

describe('metrics', () => {
  test('count requests, decisions, lookups, Redis commands, upstream requests and invalidation lag', async () => {
    const before = await sample('postern_auth_decisions_total{decision="permitted",reason="ok"}')
    const doomed = await world.issue()
    await send(get(WORKSPACE, doomed.secret))
    await send(get(WORKSPACE, doomed.secret))
    await world.revoke(doomed.id)
    await expect.poll(async () => (await send(get(WORKSPACE, doomed.secret))).status).toBe(401)
    expect(
      await sample('postern_auth_decisions_total{decision="permitted",reason="ok"}'),
    ).toBeGreaterThanOrEqual(before + 2)
    expect(
      await sample('postern_auth_decisions_total{decision="denied",reason="key_revoked"}'),
    ).toBeGreaterThanOrEqual(1)
    expect(
      await sample(
        'postern_http_requests_total{route="workspace",method="GET",code="200",source="upstream"}',
      ),
    ).toBeGreaterThanOrEqual(2)
    expect(await sample('postern_key_cache_lookups_total{tier="redis",result="hit"}')).toBeGreaterThanOrEqual(
      1,
    )
    expect(
      await sample('postern_redis_commands_total{command="getrange",outcome="ok"}'),
    ).toBeGreaterThanOrEqual(1)
    expect(
      await sample('postern_upstream_requests_total{upstream="default",code="200"}'),
    ).toBeGreaterThanOrEqual(2)
    expect(await sample('postern_key_invalidation_lag_seconds_count')).toBeGreaterThanOrEqual(1)
    expect(await sample('postern_key_invalidation_connected')).toBe(1)
    expect(await sample('postern_redis_up')).toBe(1)
  })

  test('start all children of closed label sets at zero', async () => {
    const text = await metrics()
    for (const name of [
      'postern_auth_decisions_total{decision="denied",reason="key_store_unavailable"}',
      'postern_http_client_aborts_total{phase="streaming"}',
      'postern_upstream_errors_total{upstream="default",kind="queue_full"}',
      'postern_key_cache_lookups_total{tier="key_service",result="error"}',
      'postern_http_rejected_total{reason="overloaded"}',
    ]) {
      expect(text).toContain(`${name} 0`)
    }
  })

  test('contain no client input, key or workspace in labels', async () => {
    for (let index = 0; index < 200; index++) {
      const client = new RawClient(world.gateway.urls.gateway)
      client.send(
        `${['GET', 'PROPFIND', 'QUERY'][index % 3]} /label-canary-${index} HTTP/1.1\r\nHost: canary\r\nConnection: close\r\n\r\n`,
      )
      await client.untilClosed()
    }
    const text = await metrics()
    expect(text).not.toMatch(/canary|ws_1|key_0/)
    expect(text.split('\n').filter(line => line.startsWith('postern_')).length).toBeLessThan(2000)
  })

  test('are served on the ops port alone, with the probes; the ops port serves nothing else', async () => {
    for (const path of ['/metrics', '/livez', '/readyz']) expect((await send(get(path))).status).toBe(404)
    expect((await fetch(`${world.gateway.urls.ops}/api/v1/auth`)).status).toBe(404)
    expect((await fetch(`${world.gateway.urls.ops}/livez`)).status).toBe(200)
  })
})

test('a trace context is propagated', async () => {
  world.upstream.reset()
  await send(get(WORKSPACE, key.secret, `traceparent: ${TRACE}`, 'tracestate: vendor=1'))
  expect(world.upstream.requests[0]).toMatch(new RegExp(`traceparent: ${TRACE}`, 'i'))
  expect(world.upstream.requests[0]).toMatch(/tracestate: vendor=1/i)
})
