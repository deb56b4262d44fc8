import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { neverReloads, type PrepareReload } from '../../src/config/reloadable.ts'
import type { Config } from '../../src/config/schema/schema.ts'
import { systemClock } from '../../src/domain/clock.ts'
import { counterName, currentWindow } from '../../src/domain/rate-limit.ts'
import { recordKeyName } from '../../src/domain/wire.ts'
import { createRateLimits } from '../../src/limits/create-rate-limits.ts'
import { NearLimits } from '../../src/limits/near-limits.ts'
import { GatewayCount } from '../../src/limits/rate-limiter.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { exampleRecord, grantOf, routeNamed } from '../domain/examples.ts'
import { startConsole } from '../support/console.ts'
import { keyStoreConfig } from '../support/key-store-config.ts'
import { LogSpy } from '../support/log-spy.ts'
import { metricValue } from '../support/metric-value.ts'
import { ClusterGroup } from '../support/redis-cluster.ts'
import { addUser, type RedisGroup } from '../support/redis-group.ts'
import { SentinelGroup } from '../support/redis-sentinel.ts'
import { startStandalone } from '../support/redis-standalone.ts'
import {
  CONSOLE_RIGHTS,
  CONSOLE_USER,
  COUNTER_RIGHTS,
  GATEWAY_RIGHTS,
  GATEWAY_USER,
  LIMIT_RIGHTS,
  selectorOf,
} from '../support/redis-users.ts'
import { until } from '../support/until.ts'

const POLICIES: Config['limits']['policies'] = [
  { name: 'minute', per: 'workspace', requests: 100, windowSeconds: 60 },
  { name: 'burst', per: 'key', requests: 60, windowSeconds: 60 },
]
const ROUTE = routeNamed('files')

/** A different workspace for each test, because tests share the counters. */
let callers = 0
function caller(key = 'a') {
  const workspaceId = `ws_${key === 'a' ? ++callers : callers}`
  return { route: ROUTE, grant: grantOf(exampleRecord({ id: `key_${key}`, workspaceId })) }
}

async function startGateway(group: RedisGroup, plans: Config['limits']['plans'] = {}) {
  // A machine that does other things must not make the gateway count alone.
  const { redis } = keyStoreConfig({ place: group.place, ...GATEWAY_USER, commandTimeoutMs: 10_000 })
  const metrics = createMetrics()
  const log = new LogSpy()
  const config = { redis, limits: { replicas: 1, policies: POLICIES, plans } }
  const gateways = new GatewayCount(1, systemClock)
  const running = await createRateLimits({
    ...{ config, gateways, metrics },
    nearLimits: new NearLimits(),
    logger: log,
    clock: systemClock,
    onReload: neverReloads,
  })
  onTestFinished(() => running.stop())
  const limits = { count: async (who: ReturnType<typeof caller>) => (await running.limits.count(who)) ?? [] }
  await until('it counts in Redis', async () => {
    await limits.count(caller())
    return (await metricValue(metrics.limitDecisions, { backend: 'redis', outcome: 'allowed' })) > 0
  })
  return { ...running, limits, metrics, log }
}

async function grant(group: RedisGroup, rights: readonly string[] = LIMIT_RIGHTS): Promise<void> {
  for (const server of group.servers) {
    await addUser(server, GATEWAY_USER, [...GATEWAY_RIGHTS[group.kind], selectorOf(rights)])
    await server.admin.call('ACL', 'LOG', 'RESET')
  }
}

describe.each([
  ['a single Redis', () => startStandalone()],
  ['Redis with Sentinels', () => SentinelGroup.start()],
  ['a Redis Cluster', () => ClusterGroup.start({ replicas: 0 })],
] as const)('over %s, with the rights of docs/redis.md and no other', (_, start) => {
  let group: RedisGroup
  beforeAll(async () => {
    group = await start()
    await grant(group)
  })
  afterAll(() => group.stop())

  test('gateways count together: of a burst at all of them no more requests are allowed than the limit', async () => {
    const gateways = await Promise.all([startGateway(group), startGateway(group), startGateway(group)])
    const [one, other] = [caller(), caller('b')]
    const asked = Array.from({ length: 300 }, (_unused, index) =>
      gateways[index % 3]?.limits.count(index % 2 === 0 ? one : other),
    )
    const answers = await Promise.all(asked)
    const passed = answers.filter(counts => counts?.every(count => !count.exceeded))
    expect(passed.length).toBeLessThanOrEqual(100)
    // A request that one policy rejects may have been counted by the other, because both commands are sent together.
    expect(passed.length).toBeGreaterThanOrEqual(80)
    expect(await group.refused()).toEqual([])
    for (const { log } of gateways) expect(log.lines).toEqual([])
  })

  test('a console shows what gateways left, with its own rights; without any one of them it is unknown', async () => {
    const grantConsole = async (rights: readonly string[]) => {
      for (const server of group.servers) {
        await addUser(server, CONSOLE_USER, [...CONSOLE_RIGHTS[group.kind], selectorOf(rights)])
      }
    }
    await grantConsole(COUNTER_RIGHTS)
    const gateway = await startGateway(group)
    const { send, log } = await startConsole({
      redis: { ...group.place, ...CONSOLE_USER },
      limits: { policies: POLICIES },
    })
    await until('the console is connected', async () => log.some(({ msg }) => msg === 'redis connected'))
    const who = caller()
    const left = async () => {
      const { body } = await send('GET', `/admin/v1/workspaces/${who.grant.workspaceId}/usage`)
      return body.windows.map(({ remaining }) => remaining)
    }
    expect(await left()).toEqual([100])
    for (let sent = 0; sent < 5; sent++) await gateway.limits.count(who)
    expect(await left()).toEqual([95])
    for (const right of COUNTER_RIGHTS) {
      await grantConsole(COUNTER_RIGHTS.filter(other => other !== right))
      expect(await left()).toEqual([null])
    }
    await grantConsole(COUNTER_RIGHTS)
    expect(await left()).toEqual([95])
    expect(await group.refused()).toEqual([])
  })

  test('a counter ends with its window, after any number of requests', async () => {
    const gateway = await startGateway(group)
    const who = caller()
    const [first] = await gateway.limits.count(who)
    const [second] = await gateway.limits.count(who)
    expect(first).toMatchObject({ remaining: 99, exceeded: false })
    expect(second).toMatchObject({ remaining: 98, exceeded: false })
    expect(second?.resetMs).toBeLessThanOrEqual(first?.resetMs ?? 0)
    expect(second?.resetMs).toBeGreaterThan(0)
  })

  test('a count of the month belongs to a month, and Redis drops it a day after its end', async () => {
    const quota = { name: 'quota', per: 'key', requests: 1_000, window: 'month' } as const
    const gateway = await startGateway(group, { free: { policies: [quota] } })
    const { route, grant } = caller()
    const withPlan = { ...grant, plan: 'free' }
    const beforeMs = Date.now()
    const [first] = await gateway.limits.count({ route, grant: withPlan })
    const [second] = await gateway.limits.count({ route, grant: withPlan })
    expect([first?.remaining, second?.remaining]).toEqual([999, 998])
    const month = new Date(beforeMs)
    const endMs = Date.UTC(month.getUTCFullYear(), month.getUTCMonth() + 1)
    const name = counterName(quota, currentWindow(quota, beforeMs), withPlan)
    const ends = await Promise.all(
      group.servers.map(async ({ admin }) => Number(await admin.call('PEXPIRETIME', name).catch(() => -2))),
    )
    const keptMs = Math.max(...ends) - endMs
    expect(keptMs).toBeGreaterThanOrEqual(86_400_000)
    expect(keptMs).toBeLessThan(86_400_000 + 10_000)
  })

  test('a month goes on exactly where it was if the servers lose everything', async () => {
    const quota = { name: 'quota', per: 'workspace', requests: 1_000, window: 'month' } as const
    const plans = { free: { policies: [quota] } }
    const gateways = await Promise.all([1, 2, 3].map(() => startGateway(group, plans)))
    const { route, grant } = caller()
    const count = (index: number) =>
      gateways[index % 3]?.limits.count({ route, grant: { ...grant, plan: 'free' } })
    for (let request = 0; request < 30; request++) await count(request)
    // A replica takes no writes, and follows its primary.
    for (const { admin } of group.servers) await admin.flushall().catch(() => {})
    // The one that counted last knows the count; the others follow Redis once it has said it there.
    const after = [await count(29), await count(0), await count(1), await count(2)]
    expect(after.flatMap(counts => counts?.map(({ remaining }) => remaining))).toEqual([969, 968, 967, 966])
    expect(await group.refused()).toEqual([])
  })

  test('the permissions suffice only for counters: they do not allow writing a record', async () => {
    const gateway = await startGateway(group)
    expect(gateway.health()).toBe('shared')
    for (const server of group.servers) {
      const may = (...command: string[]) =>
        server.admin.call('ACL', 'DRYRUN', GATEWAY_USER.username, ...command)
      expect(await may('SET', 'postern:limit:{ws_1}:minute:60', '0')).toBe('OK')
      for (const command of [['SET', 'x'], ['INCRBY', '1'], ['PTTL']]) {
        const [name = '', ...rest] = command
        expect(await may(name, recordKeyName('a'.repeat(64)), ...rest)).not.toBe('OK')
      }
      expect(await may('GET', 'postern:limit:{ws_1}:minute:60')).not.toBe('OK')
    }
  })

  test('each permission is needed: without it gateways count locally and log it', async () => {
    const gateway = await startGateway(group)
    for (const right of LIMIT_RIGHTS) {
      await grant(
        group,
        LIMIT_RIGHTS.filter(other => other !== right),
      )
      for (const server of group.servers)
        await server.admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      const refused = async () => {
        await gateway.limits.count(caller())
        return (await group.refused()).some(refusal => refusal.startsWith(right.replace('*', '')))
      }
      await until(`a command is rejected without ${right}`, refused)
    }
    expect(gateway.log.count('redis rate limits failing')).toBeGreaterThan(0)
    await grant(group)
    await until('it counts in Redis again', async () => {
      await gateway.limits.count(caller())
      return gateway.log.count('redis rate limits recovered') > 0
    })
  })
})

test('the first policy of a gateway that had none opens the connection to Redis, also if a reload brings it', async () => {
  const group = await startStandalone()
  onTestFinished(() => group.stop())
  await grant(group)
  // A machine that does other things must not make the gateway count alone.
  const { redis } = keyStoreConfig({ place: group.place, ...GATEWAY_USER, commandTimeoutMs: 10_000 })
  const withLimits = (limits: Partial<Config['limits']>) => ({
    redis,
    limits: { replicas: 1, policies: [], plans: {}, ...limits },
  })
  const prepares: PrepareReload<ReturnType<typeof withLimits>>[] = []
  const reload = (limits: Partial<Config['limits']>) => {
    for (const commit of prepares.map(prepare => prepare(withLimits(limits)))) commit()
  }
  const running = await createRateLimits({
    config: withLimits({}),
    gateways: new GatewayCount(1, systemClock),
    nearLimits: new NearLimits(),
    metrics: createMetrics(),
    logger: new LogSpy(),
    clock: systemClock,
    onReload: prepare => prepares.push(prepare),
  })
  onTestFinished(() => running.stop())
  const { route, grant: key } = caller()
  const count = () => running.limits.count({ route, grant: { ...key, plan: 'free' } })
  const clients = async () => String(await group.servers[0]?.admin.client('LIST')).match(/user=gateway/g)
  expect([running.health(), await count(), await clients()]).toEqual(['off', null, null])
  reload({ plans: { free: { policies: POLICIES } } })
  await until('it counts in Redis', () => running.health() === 'shared')
  expect(await count()).toMatchObject([{ remaining: 99 }, { remaining: 59 }])
  reload({})
  expect([running.health(), await count()]).toEqual(['off', null])
})

describe('1,000 workspaces in five plans, at three gateways', () => {
  const quota = (requests: number) =>
    ({ name: 'quota', per: 'workspace', requests, window: 'month' }) as const
  const LIMITS_OF_PLANS = [3, 4, 5, 6, 7]
  const plans = Object.fromEntries(
    LIMITS_OF_PLANS.map(requests => [`plan-${requests}`, { policies: [quota(requests)] }]),
  )
  const customers = Array.from({ length: 1000 }, (_, index) => {
    const limit = LIMITS_OF_PLANS[index % 5] ?? 0
    const { route, grant: key } = caller()
    return { limit, who: { route, grant: { ...key, plan: `plan-${limit}` } } }
  })
  let group: RedisGroup
  beforeAll(async () => {
    group = await startStandalone()
    await grant(group)
  })
  afterAll(() => group.stop())

  test('each get exactly the requests of their plan; a burst of 10,000 above the limit is refused without a command to Redis', async () => {
    const gateways = await Promise.all([1, 2, 3].map(() => startGateway(group, plans)))
    const count = async (who: ReturnType<typeof caller>, request: number) => {
      const counts = (await gateways[request % 3]?.limits.count(who)) ?? []
      return counts.every(({ exceeded }) => !exceeded)
    }
    const passed = await Promise.all(
      customers.map(async ({ limit, who }) => {
        const answers = await Promise.all(
          Array.from({ length: limit + 3 }, (_, request) => count(who, request)),
        )
        return answers.filter(Boolean).length
      }),
    )
    expect(passed).toEqual(customers.map(({ limit }) => limit))
    const [exhausted] = customers
    if (exhausted === undefined) throw new Error('There are no customers')
    const commands = async () =>
      Number(/total_commands_processed:(\d+)/.exec(String(await group.servers[0]?.admin.info('stats')))?.[1])
    // From one answer of Redis each gateway knows that the window is used up.
    for (const gateway of [0, 1, 2]) await count(exhausted.who, gateway)
    const before = await commands()
    const burst = Array.from({ length: 10_000 }, (_, request) => count(exhausted.who, request))
    expect((await Promise.all(burst)).filter(Boolean)).toEqual([])
    // The question itself.
    expect((await commands()) - before).toBe(1)
    for (const { log } of gateways) expect(log.lines).toEqual([])
  })
})
