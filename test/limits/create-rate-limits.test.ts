import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { PrepareReload } from '../../src/config/reloadable.ts'
import type { Config } from '../../src/config/schema/schema.ts'
import { systemClock } from '../../src/domain/clock.ts'
import { counterName, currentWindow } from '../../src/domain/rate-limit.ts'
import { createRateLimits } from '../../src/limits/create-rate-limits.ts'
import { NearLimits } from '../../src/limits/near-limits.ts'
import { GatewayCount } from '../../src/limits/rate-limiter.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { exampleRecord, grantOf, routeNamed } from '../domain/examples.ts'
import { type ConfigChanges, keyStoreConfig } from '../support/key-store-config.ts'
import { LogSpy } from '../support/log-spy.ts'
import { measured } from '../support/measured-again.ts'
import { metricValue } from '../support/metric-value.ts'
import { RedisServer } from '../support/redis-server.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { settled, until } from '../support/until.ts'

type Policy = Config['limits']['policies'][number]

const MINUTE: Policy = { name: 'minute', per: 'workspace', requests: 100, windowSeconds: 60 }
const MONTH: Policy = { name: 'quota', per: 'workspace', requests: 100, window: 'month' }
const SECRET = 'the-password'

interface Start {
  readonly redis?: ConfigChanges & {
    readonly circuit?: { readonly failures: number; readonly openMs: number }
  }
  readonly policies?: readonly Policy[]
}

let workspaces = 0

/** A gateway's limits, for a workspace of its own. */
async function start({ redis: changes = {}, policies = [MINUTE] }: Start) {
  const { redis } = keyStoreConfig({ commandTimeoutMs: 10_000, ...changes })
  const settingsWith = (policies: readonly Policy[], more: Partial<typeof redis> = {}) => ({
    redis: { ...redis, circuit: changes.circuit ?? redis.circuit, ...more },
    limits: { replicas: 1, policies: [...policies], plans: {} },
  })
  const prepares: PrepareReload<ReturnType<typeof settingsWith>>[] = []
  const [log, metrics] = [new LogSpy(), createMetrics()]
  const running = await createRateLimits({
    config: settingsWith(policies),
    gateways: new GatewayCount(1, systemClock),
    nearLimits: new NearLimits(),
    ...{ metrics, logger: log, clock: systemClock },
    onReload: prepare => prepares.push(prepare),
  })
  onTestFinished(() => running.stop())
  const reload = (policies: readonly Policy[], more: Partial<typeof redis> = {}) => {
    for (const commit of prepares.map(prepare => prepare(settingsWith(policies, more)))) commit()
  }
  const grant = grantOf(exampleRecord({ workspaceId: `ws_${++workspaces}` }))
  const count = async (plan: string | null = null) => {
    const counts = await running.limits.count({ route: routeNamed('files'), grant: { ...grant, plan } })
    return counts?.map(({ remaining }) => remaining) ?? null
  }
  const untilHealthIs = (health: string) =>
    until(`limits are ${health}`, async () => {
      await count()
      return running.health() === health
    })
  const nameOf = (policy: Policy) => counterName(policy, currentWindow(policy, Date.now()), grant)
  return { ...running, count, reload, prepares, log, metrics, untilHealthIs, nameOf }
}

describe('with a Redis', () => {
  let server: RedisServer
  let users = 0
  beforeAll(async () => {
    server = await RedisServer.start()
  })
  afterAll(() => server.stop())

  /** A gateway with a user of its own. */
  async function startAs(options: Omit<Start, 'redis'> = {}) {
    const username = `gateway-${++users}`
    const setUser = (...rules: string[]) => server.addUser(username, ...rules)
    await setUser('on', `>${SECRET}`, '~*', '&*', '+@all')
    const redis = { redisUrl: server.url, username, password: SECRET }
    const connections = async () => {
      const clients = String(await server.admin.client('LIST'))
      return clients.split('\n').filter(line => line.includes(`user=${username} `)).length
    }
    return { ...(await start({ ...options, redis })), setUser, connections, username }
  }

  test('gateways count in it, under the name of the counter, until they stop', async () => {
    const { health, count, nameOf, connections, stop, log, untilHealthIs } = await startAs()
    await until('it is connected', () => health() === 'shared')
    expect(await count()).toEqual([99])
    expect(await count()).toEqual([98])
    expect(await server.admin.get(nameOf(MINUTE))).toBe('2')
    expect([await connections(), log.lines]).toEqual([1, []])
    stop()
    await until('it has left', async () => (await connections()) === 0)
    await untilHealthIs('local')
    expect(log.lines).toEqual([])
  })

  test('without a policy there is no connection, also after a reload, and the first policy opens it', async () => {
    const { health, count, reload, prepares, connections, untilHealthIs } = await startAs({ policies: [] })
    expect([health(), await count(), prepares.length]).toEqual(['off', null, 1])
    reload([])
    await settled()
    expect([health(), await count(), prepares.length, await connections()]).toEqual(['off', null, 1, 0])
    reload([MINUTE])
    await untilHealthIs('shared')
    reload([MINUTE])
    await settled()
    expect(await connections()).toBe(1)
    reload([])
    expect([health(), await count()]).toEqual(['off', null])
  })

  test('a gateway that stops while it connects leaves no connection behind', async () => {
    const { reload, prepares, stop, connections } = await startAs({ policies: [] })
    reload([MINUTE])
    stop()
    await until('it has begun to connect', () => prepares.length > 1)
    await settled()
    for (let asked = 0; asked < 50; asked++) await server.admin.ping()
    expect(await connections()).toBe(0)
  })

  test('an unknown plan is logged once, and again after a reload', async () => {
    const { count, reload, log } = await startAs()
    for (const _ of [1, 2]) await count('gold')
    const logged = () => log.count('plan unknown, limits.policies apply')
    expect(logged()).toBe(1)
    reload([MINUTE])
    for (const _ of [1, 2]) await count('gold')
    expect(logged()).toBe(2)
  })

  test('a new password holds from the next connection on', async () => {
    const { reload, setUser, username, metrics, log, untilHealthIs } = await startAs()
    await untilHealthIs('shared')
    await setUser('resetpass', '>another')
    await server.admin.client('KILL', 'USER', username)
    await until(
      'it is rejected',
      async () => (await metricValue(metrics.redisFailing, { cause: 'wrongpass' })) > 0,
    )
    expect(log.lines[0]).toMatchObject({
      message: 'redis rate limits failing',
      fields: { part: 'redis rate limits', cause: expect.any(String), advice: expect.anything() },
    })
    reload([MINUTE], { password: 'another' })
    await untilHealthIs('shared')
    expect(await metricValue(metrics.redisReconnects, {})).toBeGreaterThan(0)
    expect(log.count('redis rate limits recovered')).toBe(1)
  })

  test('that rejects commands, they count alone, and say so until it accepts them again', async () => {
    const { setUser, count, health, metrics, log, connections, untilHealthIs } = await startAs()
    await untilHealthIs('shared')
    await setUser('-incrby')
    await untilHealthIs('local')
    // It connects again, in case another server accepts them.
    await until('it is connected again', async () => (await connections()) === 1)
    for (let asked = 0; asked < 50; asked++) await server.admin.ping()
    expect(health()).toBe('local')
    expect(await metricValue(metrics.redisFailing, { cause: 'noperm' })).toBe(1)
    expect(log.lines).toMatchObject([{ message: 'redis rate limits failing', fields: { cause: 'noperm' } }])
    await setUser('+incrby')
    await untilHealthIs('shared')
    expect([await metricValue(metrics.redisFailing, { cause: 'noperm' }), health()]).toEqual([0, 'shared'])
    expect(await count()).toEqual([expect.any(Number)])
    expect(log.count('redis rate limits recovered')).toBe(1)
  })

  test('that lost a month’s counter, a gateway puts it back, and says what keeps it from that', async () => {
    const { setUser, count, nameOf, log, untilHealthIs } = await startAs({ policies: [MONTH] })
    await untilHealthIs('shared')
    const [before = 0] = (await count()) ?? []
    await server.admin.del(nameOf(MONTH))
    expect(await count()).toEqual([before - 1])
    const stored = async () => 100 - Number(await server.admin.get(nameOf(MONTH)))
    await until('it is as it was', async () => (await stored()) === before - 1)
    await setUser('-eval')
    await server.admin.del(nameOf(MONTH))
    expect(await count()).toEqual([before - 2])
    await until('it says so', () => log.count('redis rate limits failing') === 1)
    expect(log.lines[0]).toMatchObject({
      fields: { cause: 'noperm', reason: expect.stringContaining('eval') },
    })
  })
})

test('before Redis is there, and while it is down, gateways count alone', async () => {
  const server = await RedisServer.absent()
  onTestFinished(() => server.stop())
  const { health, count, metrics, log, untilHealthIs } = await start({ redis: { redisUrl: server.url } })
  expect([health(), await count()]).toEqual(['local', [99]])
  await until('it says so', () => log.count('redis rate limits failing') === 1)
  await server.revive()
  await untilHealthIs('shared')
  expect(log.count('redis rate limits recovered')).toBe(1)
  const before = await metricValue(metrics.redisReconnects, {})
  await server.kill()
  await untilHealthIs('local')
  expect(await count()).toEqual([expect.any(Number)])
  await server.revive()
  await untilHealthIs('shared')
  expect(await metricValue(metrics.redisReconnects, {})).toBeGreaterThan(before)
})

test('a Redis that answers nothing is left alone after as many failures as the settings say', async () => {
  const server = await RedisServer.start()
  onTestFinished(() => server.stop())
  const circuit = { failures: 2, openMs: 600_000 }
  const redis = { redisUrl: server.url, commandTimeoutMs: 500, circuit }
  const { health, count, untilHealthIs } = await start({ redis })
  await untilHealthIs('shared')
  server.freeze()
  await untilHealthIs('local')
  const tookMs = await measured({
    what: 'twenty counts without Redis',
    pids: () => [process.pid],
    measure: async () => {
      const startedMs = performance.now()
      for (let request = 0; request < 20; request++) await count()
      return performance.now() - startedMs
    },
    // Each would wait so long for an answer.
    missedByMs: ms => ms - redis.commandTimeoutMs,
  })
  expect(tookMs).toBeLessThan(redis.commandTimeoutMs)
  server.thaw()
  const isConnected = async () => String(await server.admin.client('LIST')).split('id=').length > 2
  await until('it is connected again', isConnected)
  for (let asked = 0; asked < 50; asked++) await server.admin.ping()
  expect(health()).toBe('local')
})

test('a gateway without Redis counts alone, and takes a reload', async () => {
  const { health, count, reload, stop, log } = await start({})
  expect([health(), await count(), await count()]).toEqual(['local', [99], [98]])
  reload([{ ...MINUTE, requests: 10 }])
  expect([health(), await count()]).toEqual(['local', [7]])
  reload([])
  expect([health(), await count(), log.lines]).toEqual(['off', null, []])
  stop()
})

test('a file of the CA that is gone when the connection begins is named in the log, and gateways count alone', async () => {
  const place = {
    url: 'rediss://127.0.0.1:1',
    caFile: join(temporaryDirectory(), 'ca.pem'),
    sentinel: { urls: [] },
    cluster: { urls: [] },
  }
  const { health, count, log } = await start({ redis: { place } })
  expect([health(), await count()]).toEqual(['local', [99]])
  expect(log.lines).toMatchObject([
    { message: 'redis rate limits failing', fields: { reason: expect.stringContaining('redis.caFile') } },
  ])
})
