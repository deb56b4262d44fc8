import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { fewSlow, slowOf, type Timed } from '../support/measured-again.ts'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { exchange, field, get, type RawAnswer } from '../support/raw-client.ts'
import { jsonAnswer } from '../support/recording-upstream.ts'
import { scrape, sumOf } from '../support/scrape.ts'
import { StarvationMeter } from '../support/starvation-meter.ts'
import { until } from '../support/until.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const DECISIONS = 'postern_ratelimit_decisions_total'
const COMMAND_TIMEOUT_MS = 500
/** A request that took this long waited for the timeout. */
const SLOW_MS = COMMAND_TIMEOUT_MS * 0.9
/** Five until the circuit breaker opens, and one lookup of the key, which is verified again while disconnected. */
const SLOW_AT_MOST = 6
const POLICIES = [
  { name: 'hour', per: 'workspace', route: 'files', requests: 3, windowSeconds: 3600 },
  { name: 'burst', per: 'key', route: 'workspace', requests: 2, windowSeconds: 1000 },
  { name: 'wide', per: 'workspace', route: 'workspace', requests: 100_000, windowSeconds: 3600 },
]
const SETTINGS = {
  POSTERN_LIMITS_POLICIES: JSON.stringify(POLICIES),
  POSTERN_REDIS_COMMAND_TIMEOUT_MS: String(COMMAND_TIMEOUT_MS),
  POSTERN_LOG_LEVEL: 'warn',
  // The upstream's field is dropped even if the operator allows it.
  POSTERN_GATEWAY_RESPONSE_HEADERS: 'Content-Type, Content-Length, RateLimit',
}

let world: World
let other: Listening
const further: Listening[] = []
beforeAll(async () => {
  world = await startWorld(SETTINGS)
  other = await startPostern('gateway', { ...world.env, ...SETTINGS })
  for (const { urls } of [world.gateway, other]) await untilShared(urls.ops)
})
afterEach(async () => {
  world.redis.thaw()
  await Promise.all(further.splice(0).map(({ process }) => process.stop()))
})
afterAll(async () => {
  await other.process.stop()
  await world.stop()
})

let workspaces = 0
/** A workspace without any request so far. */
async function workspace(keys = 1): Promise<{ id: string; keys: IssuedKey[]; files: string; path: string }> {
  const id = `ws_limit_${++workspaces}`
  const issued = await Promise.all(Array.from({ length: keys }, () => world.issue({ workspaceId: id })))
  const path = `/api/v1/workspaces/${id}`
  return { id, keys: issued, path, files: `${path}/files` }
}

const send = (target: string, key: IssuedKey | undefined, gateway = world.gateway): Promise<RawAnswer> =>
  exchange(gateway.urls.gateway, get(target, key?.secret))

async function readiness(opsUrl: string): Promise<{ status: number; limits: string }> {
  const response = await fetch(`${opsUrl}/readyz`)
  return { status: response.status, limits: ((await response.json()) as { limits: string }).limits }
}

async function untilShared(opsUrl: string): Promise<void> {
  await until(
    'limits are counted in Redis',
    async () => (await readiness(opsUrl)).limits === 'shared',
    20_000,
  )
}

describe('a client sees', () => {
  test('the remaining quota in each response, and Retry-After in the rejection, byte for byte', async () => {
    const { keys, files } = await workspace()
    const answers: RawAnswer[] = []
    for (let asked = 0; asked < 4; asked++) answers.push(await send(files, keys[0]))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429])
    const limits = answers.map(answer => field(answer, 'ratelimit'))
    expect(limits[0]).toBe('"hour";r=2;t=3600')
    expect(limits[2]).toMatch(/^"hour";r=0;t=3[56]\d\d$/)
    const refusal = answers[3]
    const seconds = Number(/t=(\d+)$/.exec(limits[3] ?? '')?.[1])
    expect(refusal?.head.replace(/^(date|x-request-id): .*$/gim, '$1: -').split('\r\n')).toEqual([
      'HTTP/1.1 429 Too Many Requests',
      'ratelimit-policy: "hour";q=3;w=3600',
      `ratelimit: "hour";r=0;t=${seconds}`,
      'content-type: application/json; charset=utf-8',
      'cache-control: no-store',
      'x-content-type-options: nosniff',
      `retry-after: ${seconds}`,
      'x-request-id: -',
      'content-length: 51',
      'Date: -',
      'Connection: keep-alive',
      'Keep-Alive: timeout=75',
    ])
    expect(refusal?.body).toBe('{"code":"rate_limited","error":"Too many requests"}')
  })

  test('every applicable policy in one list, and in a rejection those that were exceeded', async () => {
    const { keys, path } = await workspace()
    const [first, , third] = [await send(path, keys[0]), await send(path, keys[0]), await send(path, keys[0])]
    expect(field(first, 'ratelimit-policy')).toBe('"burst";q=2;w=1000, "wide";q=100000;w=3600')
    expect(field(first, 'ratelimit')).toBe('"burst";r=1;t=1000, "wide";r=99999;t=3600')
    expect(third.status).toBe(429)
    expect(field(third, 'ratelimit-policy')).toBe('"burst";q=2;w=1000')
    expect(Number(field(third, 'retry-after'))).toBeGreaterThan(900)
  })

  test("the gateway's fields on every upstream response, never the upstream's own", async () => {
    const { keys, files } = await workspace()
    world.upstream.answer = () => jsonAnswer(500, '{}', 'RateLimit: "other";r=9;t=9')
    const failed = await send(files, keys[0])
    world.upstream.answer = () => jsonAnswer(200, '{"id":"x"}', 'RateLimit: "other";r=9;t=9')
    const passed = await send(files, keys[0])
    expect([failed.status, field(failed, 'ratelimit')]).toEqual([502, '"hour";r=2;t=3600'])
    expect(passed.fields.filter(([name]) => name === 'ratelimit')).toEqual([
      ['ratelimit', expect.stringMatching(/^"hour";r=1;/)],
    ])
  })

  test('no such fields on a route without a policy', async () => {
    const { keys } = await workspace()
    const answer = await send('/api/v1/auth', keys[0])
    expect([answer.status, answer.head.toLowerCase().includes('ratelimit')]).toEqual([200, false])
  })
})

describe('requests are counted', () => {
  test('per workspace: another key of it at another gateway gives no extra quota', async () => {
    const { keys, files } = await workspace(2)
    const statuses: number[] = []
    for (let asked = 0; asked < 6; asked++) {
      statuses.push((await send(files, keys[asked % 2], asked % 3 === 0 ? other : world.gateway)).status)
    }
    expect(statuses).toEqual([200, 200, 200, 429, 429, 429])
    expect((await send((await workspace()).files, keys[0])).status).toBe(404)
    const stranger = await workspace()
    expect((await send(stranger.files, stranger.keys[0])).status).toBe(200)
  })

  test('per key if a policy says so: other keys of the workspace are unaffected', async () => {
    const { keys, path } = await workspace(2)
    const statuses: number[] = []
    for (const key of [0, 0, 0, 1, 1, 1]) statuses.push((await send(path, keys[key])).status)
    expect(statuses).toEqual([200, 200, 429, 200, 200, 429])
  })

  test('only if no other check rejects them', async () => {
    const { id, keys, files } = await workspace()
    const narrow = await world.issue({ workspaceId: id, scopes: ['workspace:read'] })
    const stranger = (await workspace()).keys[0]
    const refused = [
      await send(files, undefined),
      await send(files, { id: '', secret: 'wsk_junk' }),
      await send(files, stranger),
      await send(files, narrow),
      await send(`${files}?limit=0`, keys[0]),
      await exchange(world.gateway.urls.gateway, get(files, keys[0]?.secret).replace('GET', 'POST')),
    ]
    expect(refused.map(({ status }) => status)).toEqual([401, 401, 404, 403, 400, 405])
    for (const { head } of refused) expect(head.toLowerCase()).not.toContain('ratelimit')
    expect(field(await send(files, keys[0]), 'ratelimit')).toBe('"hour";r=2;t=3600')
  })

  test('once in the metrics: by policy, outcome and counting place', async () => {
    const { keys, files } = await workspace()
    const before = await scrape(world.gateway.urls.ops)
    for (let asked = 0; asked < 5; asked++) await send(files, keys[0])
    const after = await scrape(world.gateway.urls.ops)
    const grown = (outcome: string) => {
      const child = `${DECISIONS}{policy="hour",outcome="${outcome}",backend="redis"}`
      return (after.get(child) ?? 0) - (before.get(child) ?? 0)
    }
    expect([grown('allowed'), grown('limited')]).toEqual([3, 2])
    const limited = 'postern_auth_decisions_total{decision="denied",reason="rate_limited"}'
    expect((after.get(limited) ?? 0) - (before.get(limited) ?? 0)).toBe(2)
  })
})

test('not at all without policies: no field, no series, no connection', async () => {
  const connections = async () => String(await world.redis.admin.call('CLIENT', 'LIST')).split('\n').length
  const before = await connections()
  const plain = await startPostern('gateway', world.env)
  further.push(plain)
  const { keys, files } = await workspace()
  await until('it answers', async () => (await send(files, keys[0], plain)).status === 200)
  expect((await send(files, keys[0], plain)).head.toLowerCase()).not.toContain('ratelimit')
  expect(sumOf(await scrape(plain.urls.ops), DECISIONS)).toBe(0)
  expect([...(await scrape(plain.urls.ops)).keys()].filter(name => name.startsWith(DECISIONS))).toEqual([])
  expect(await readiness(plain.urls.ops)).toMatchObject({ limits: 'off' })
  // One that reads and one that subscribes; counting would need a third.
  expect((await connections()) - before).toBe(2)
})

test('without Redis, each gateway grants its share of the gateways that the console knows', async () => {
  const { POSTERN_REDIS_URL: _, ...withoutRedis } = world.env
  const policies = [{ name: 'hour', per: 'workspace', route: 'files', requests: 1200, windowSeconds: 3600 }]
  const settings = { ...SETTINGS, POSTERN_LIMITS_POLICIES: JSON.stringify(policies) }
  const third = await startPostern('gateway', { ...withoutRedis, ...settings })
  further.push(third)
  // A gateway of an earlier test that could not sign off counts for a minute.
  const shares = [3, 4, 5].map(gateways => `"hour";r=${1200 / gateways - 1};t=3600`)
  await until('it knows of the two others', async () => {
    // A new workspace, because a window that has begun goes on.
    const { keys, files } = await workspace()
    return shares.includes(field(await send(files, keys[0], third), 'ratelimit') ?? '')
  })
})

interface FrozenUnderLoad {
  readonly statuses: readonly number[]
  readonly times: readonly Timed[]
  /** While Redis is frozen. */
  readonly local: number
  readonly answer: RawAnswer
  readonly recoveredMs: number
}

/** Freezes Redis under the load of one client with a new key. */
async function freezeUnderLoad(gateway: Listening): Promise<FrozenUnderLoad> {
  const { keys } = await workspace()
  const statuses: number[] = []
  const times: Timed[] = []
  const starvation = new StarvationMeter([process.pid, gateway.process.child.pid ?? 0, world.redis.pid])
  onTestFinished(() => starvation.stop())
  const load = async (requests: number) => {
    for (let asked = 0; asked < requests; asked++) {
      const beganMs = Date.now()
      const { status } = await send('/api/v1/auth', keys[0], gateway)
      const endedMs = Date.now()
      times.push({ tookMs: endedMs - beganMs, starvedMs: starvation.waitedInAllMs(beganMs, endedMs) })
      statuses.push(status)
    }
  }
  const decided = async (backend: string) =>
    sumOf(await scrape(gateway.urls.ops), DECISIONS, `backend="${backend}"`)

  const before = [await decided('redis'), await decided('local')] as const
  await load(100)
  expect([await decided('redis'), await decided('local')]).toEqual([before[0] + 100, before[1]])
  world.redis.freeze()
  await load(300)
  expect(await readiness(gateway.urls.ops)).toEqual({ status: 200, limits: 'local' })
  const local = (await decided('local')) - before[1]
  const answer = await send('/api/v1/auth', keys[0], gateway)

  world.redis.thaw()
  const thawedMs = performance.now()
  await until('Redis counts again', async () => {
    await load(1)
    return (await readiness(gateway.urls.ops)).limits === 'shared'
  })
  const recoveredMs = performance.now() - thawedMs
  const counted = await decided('redis')
  await load(20)
  expect((await decided('redis')) - counted).toBe(20)
  return { statuses, times, local, answer, recoveredMs }
}

describe('Redis that is frozen under load', () => {
  test('delays a few requests by the timeout and fails none; afterwards each gateway grants its share', async () => {
    const generous = [{ name: 'wide', per: 'workspace', requests: 1_000_000, windowSeconds: 3600 }]
    const settings = {
      ...SETTINGS,
      POSTERN_LIMITS_POLICIES: JSON.stringify(generous),
      POSTERN_LIMITS_REPLICAS: '4',
    }
    const gateway = await startPostern('gateway', { ...world.env, ...settings })
    further.push(gateway)
    await untilShared(gateway.urls.ops)
    const { statuses, times, local, answer, recoveredMs } = await fewSlow({
      what: 'Redis frozen, one client',
      measure: () => freezeUnderLoad(gateway),
      groups: frozen => [frozen.times],
      slowMs: SLOW_MS,
      atMost: SLOW_AT_MOST,
    })
    const failed = statuses.filter(status => status !== 200)
    const slow = slowOf(times, SLOW_MS)
    process.stdout.write(
      `\nRedis frozen, one client: ${statuses.length} requests, ${failed.length} failed or wrong, ${local} counted locally, ${slow.length} delayed by the timeout of ${COMMAND_TIMEOUT_MS} ms, Redis counts again after ${Math.round(recoveredMs)} ms\n`,
    )
    expect(failed).toEqual([])
    expect(Number(/r=(\d+)/.exec(field(answer, 'ratelimit') ?? '')?.[1])).toBeLessThan(250_000)
    expect(field(answer, 'ratelimit-policy')).toBe('"wide";q=1000000;w=3600')
    expect(slow.length).toBeLessThanOrEqual(SLOW_AT_MOST)
  })

  test('and that is down does not fail any request, and each gateway allows its share, but at least one request', async () => {
    const { keys, files } = await workspace()
    await world.redis.kill()
    await until(
      'limits are counted locally',
      async () => (await readiness(world.gateway.urls.ops)).limits === 'local',
    )
    const statuses: number[] = []
    for (let asked = 0; asked < 5; asked++) statuses.push((await send(files, keys[0])).status)
    expect(statuses).toEqual([200, 429, 429, 429, 429])
    await world.redis.revive()
    await untilShared(world.gateway.urls.ops)
    await untilShared(other.urls.ops)
    expect((await send(files, keys[0])).status).toBe(200)
  })
})
