import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { run } from './revocation/scenario.ts'
import { loadClosed } from './support/closed-loop.ts'
import { Fleet } from './support/fleet.ts'
import { GreedyClients } from './support/greedy-clients.ts'
import { exchange, fingerprint, get, type RawAnswer } from './support/raw-client.ts'
import { scrape, scrapeOne, sumOf } from './support/scrape.ts'
import { until } from './support/until.ts'
import type { IssuedKey } from './support/world.ts'

/**
 * The README's guarantees, each once, on real processes: the console, two gateways, Redis, an upstream and their connections.
 * The files that the README names beside this one hold each of them in all its cases.
 */

const BASE = '/api/v1/workspaces'
const REDIS_TIMEOUT_MS = 500
const CONNECTIONS = 4
const QUEUE_SLOTS = 60
const IN_FLIGHT = CONNECTIONS + QUEUE_SLOTS
/** Few, so that the test itself does not keep the processor busy. */
const FEW = { keys: 6, revocationsPerSecond: 12 }
const TOTAL_TIMEOUT_MS = 60_000
/** For which the upstream keeps requests waiting that are not to be answered, longer than the test takes. */
const FOREVER_MS = 600_000

let fleet: Fleet
let key: IssuedKey
const urlOf = (replica: number) => fleet.replicas[replica]?.urls.gateway ?? ''
const send = (bytes: string, replica = 0): Promise<RawAnswer> => exchange(urlOf(replica), bytes)

beforeAll(async () => {
  fleet = await Fleet.start(2, {
    POSTERN_REDIS_COMMAND_TIMEOUT_MS: String(REDIS_TIMEOUT_MS),
    POSTERN_LOG_LEVEL: 'info',
    POSTERN_UPSTREAM_CONNECTIONS: String(CONNECTIONS),
    POSTERN_UPSTREAM_QUEUE_MAX_REQUESTS: String(QUEUE_SLOTS),
    POSTERN_UPSTREAM_QUEUE_MAX_WAIT_MS: String(FOREVER_MS),
    POSTERN_UPSTREAM_TOTAL_TIMEOUT_MS: String(TOTAL_TIMEOUT_MS),
    POSTERN_UPSTREAM_HEADERS_TIMEOUT_MS: String(FOREVER_MS),
    POSTERN_GATEWAY_MAX_IN_FLIGHT: String(IN_FLIGHT),
    // Overload shedding depends on the machine and has its own test.
    POSTERN_GATEWAY_MAX_LOOP_DELAY_MS: String(FOREVER_MS),
  })
  ;[key = { id: '', secret: '' }] = await fleet.issue(1)
})
afterAll(() => fleet.stop())
afterEach(() => fleet.upstream.reset())

describe('a revoked key is rejected', () => {
  test('by every connected gateway within one second', async () => {
    await run(fleet, [key], { name: 'connected', boundMs: 1_000, ...FEW })
  })

  test('by a disconnected gateway within two seconds, while the console answers', async () => {
    const [disconnected] = fleet.replicas
    await run(fleet, [key], {
      name: 'disconnected',
      boundMs: 2_000,
      ...FEW,
      fault: () => disconnected?.toRedis.hold('back'),
      meanwhile: async () => {
        const connected = await scrapeOne(disconnected?.urls.ops ?? '', 'postern_key_invalidation_connected')
        expect(connected).toBe(0)
      },
      mend: () => disconnected?.toRedis.resume(),
    })
  })
})

test('a key reaches its own workspace only: every other is the same 404 as an unknown path, byte for byte', async () => {
  await fleet.issue(1, 'ws_2')
  const unknown = fingerprint(await send(get('/unknown', key.secret)))
  expect(unknown).toMatch(/^HTTP\/1\.1 404 /)
  for (const path of ['ws_2', 'ws_missing', 'ws_2/files', 'ws_2/files?limit=x', 'ws_2/unknown']) {
    expect(fingerprint(await send(get(`${BASE}/${path}`, key.secret)))).toBe(unknown)
  }
  expect(fleet.upstream.requests).toEqual([])
  expect((await send(get(`${BASE}/ws_1`, key.secret))).status).toBe(200)
})

test('only a GET that matches a route, key, scope and query reaches the service', async () => {
  const [narrow] = await fleet.issue(1, 'ws_1', ['workspace:read'])
  const post = `POST ${BASE}/ws_1 HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${key.secret}\r\nContent-Length: 0\r\n\r\n`
  const rejected: [number, string][] = [
    [405, post],
    [404, get(`${BASE}/ws_1/unknown`, key.secret)],
    [404, get(`${BASE}/ws_1/../ws_1`, key.secret)],
    [401, get(`${BASE}/ws_1`)],
    [401, get(`${BASE}/ws_1`, `${key.secret}x`)],
    [403, get(`${BASE}/ws_1/files`, narrow?.secret)],
    [400, get(`${BASE}/ws_1/files?limit=x`, key.secret)],
  ]
  for (const [status, bytes] of rejected) expect([bytes, (await send(bytes)).status]).toEqual([bytes, status])
  expect(fleet.upstream.requests).toEqual([])
  expect((await send(get(`${BASE}/ws_1/files?limit=25`, key.secret))).status).toBe(200)
  const lines = fleet.upstream.requests.map(request => request.split('\r\n')[0])
  expect(lines).toEqual([`GET ${BASE}/ws_1/files?limit=25 HTTP/1.1`])
})

describe('a good key is never "invalid"', () => {
  const answer = async ({ secret }: IssuedKey) => {
    const { status, body } = await send(get('/api/v1/auth', secret))
    return status === 200 ? 'accepted' : `${status} ${(JSON.parse(body) as { code: string }).code}`
  }
  const accepted = (keys: readonly IssuedKey[]) => keys.map(() => 'accepted')

  test('without Redis and console: the answer is the last verified record, or 503', async () => {
    const [known, unknown] = [await fleet.issue(3), await fleet.issue(3)]
    expect(await Promise.all(known.map(answer))).toEqual(accepted(known))
    const ways = fleet.replicas.map(({ toKeyService }) => toKeyService)
    await fleet.redis.kill()
    try {
      // The console vouches for both.
      const [seen = key, ...rest] = unknown
      expect(await Promise.all([...known, seen].map(answer))).toEqual(accepted([...known, seen]))
      for (const way of ways) way.hold('forth')
      expect(await Promise.all([...known, seen].map(answer))).toEqual(accepted([...known, seen]))
      expect(await Promise.all(rest.map(answer))).toEqual(rest.map(() => '503 key_store_unavailable'))
    } finally {
      for (const way of ways) way.resume()
      await fleet.redis.revive()
    }
    await fleet.untilHealthy()
    expect(await Promise.all(unknown.map(answer))).toEqual(accepted(unknown))
  })
})

test('the secret of a key is shown once: it is in no log, metric, URL or database', async () => {
  const [{ id, secret } = key] = await fleet.issue(1)
  for (const bytes of [
    get(`${BASE}/ws_1`, secret),
    get(`${BASE}/ws_1?key=${secret}`, secret),
    get(`/${secret}`),
    get(`${BASE}/ws_1`, secret, `X-Request-Id: ${secret}`),
  ]) {
    await send(bytes)
  }
  const paths = [`/keys/${id}`, '/workspaces/ws_1/keys', '/workspaces/ws_1/audit']
  const shown = await Promise.all(paths.map(path => fleet.read(path)))
  for (const text of shown) expect(text).toContain(id)
  const { redis, console, replicas, directory, upstream } = fleet
  const stored = await Promise.all((await redis.admin.keys('*')).map(name => redis.admin.dump(name)))
  const files = readdirSync(directory).map(name => readFileSync(join(directory, name), 'latin1'))
  const metrics = await Promise.all(
    [console, ...replicas].map(async ({ urls }) => (await fetch(`${urls.ops}/metrics`)).text()),
  )
  const logs = [console, ...replicas].flatMap(({ process: { lines } }) => lines)
  expect(logs.join()).toContain(id)
  const everything = [...shown, ...stored, ...files, ...metrics, ...logs, ...upstream.requests]
  expect(everything.filter(text => String(text).includes(secret))).toEqual([])
})

describe('one workspace cannot starve others', () => {
  const isGreedy = (request: string) => request.includes('ws_greedy')
  let greedy: GreedyClients

  afterEach(() => greedy.disconnect())

  test('of connections, of the queue or of requests in flight', async () => {
    const [{ secret } = key] = await fleet.issue(1, 'ws_greedy')
    fleet.upstream.hold = request => (isGreedy(request) ? new Promise(() => {}) : undefined)
    greedy = new GreedyClients(urlOf(0), get(`${BASE}/ws_greedy`, secret))
    greedy.connect(2 * IN_FLIGHT)
    const ops = fleet.replicas[0]?.urls.ops ?? ''
    await until('it holds all connections and the queue, and is rejected', async () => {
      const metrics = await scrape(ops)
      return sumOf(metrics, 'postern_upstream_queued_requests') === QUEUE_SLOTS && greedy.refused > 0
    })
    const honest = { target: `${BASE}/ws_1`, secret: key.secret, connections: 2, accepted: 25 }
    const { statuses, longestMs } = await loadClosed(urlOf(0), honest)
    expect([...statuses.keys()]).toEqual([200])
    // Without fair shares, the first one waits until the upstream's total timeout frees a connection.
    expect(longestMs).toBeLessThan(TOTAL_TIMEOUT_MS / 2)
  })
})
