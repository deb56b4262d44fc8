import { describe, expect, onTestFinished, test } from 'vitest'
import { type RunningConsole, startConsole } from '../support/console.ts'
import { freePort } from '../support/free-port.ts'
import { metricValue } from '../support/metric-value.ts'
import { Replica } from '../support/redis-fleet.ts'
import { NOWHERE } from '../support/redis-group.ts'
import { RedisServer, type RedisServerOptions } from '../support/redis-server.ts'
import { until } from '../support/until.ts'

interface Fault {
  readonly cause: string
  /** Part of the advice in the log. */
  readonly advice: string
  readonly options?: () => Promise<RedisServerOptions>
  /** It begins before console and gateway start. */
  readonly isFirst?: true
  readonly begin: (server: RedisServer) => Promise<unknown>
  /** Null if only other settings cure it. */
  readonly cure: ((server: RedisServer) => Promise<unknown>) | null
  /** A gateway only reads: what meets writes alone does not concern it. */
  readonly gateway: 'failed' | 'ok'
}

const FAULTS: readonly [string, Fault][] = [
  [
    'that requires a password',
    {
      cause: 'noauth',
      advice: 'set redis.password',
      isFirst: true, // Redis goes on with connections from before.
      begin: ({ admin }) => admin.config('SET', 'requirepass', 'a-password'),
      cure: ({ admin }) => admin.config('SET', 'requirepass', ''),
      gateway: 'failed',
    },
  ],
  [
    'whose user lacks a right',
    {
      cause: 'noperm',
      advice: '+getrange',
      begin: ({ admin }) => admin.call('ACL', 'SETUSER', 'default', '-getrange'),
      cure: ({ admin }) => admin.call('ACL', 'SETUSER', 'default', '+getrange'),
      gateway: 'failed',
    },
  ],
  [
    'whose user may not publish',
    {
      cause: 'noperm',
      advice: '+publish',
      begin: ({ admin }) => admin.call('ACL', 'SETUSER', 'default', '-publish'),
      cure: ({ admin }) => admin.call('ACL', 'SETUSER', 'default', '+publish'),
      gateway: 'ok',
    },
  ],
  [
    'that is full',
    {
      cause: 'oom',
      advice: 'raise its maxmemory',
      begin: ({ admin }) => admin.config('SET', 'maxmemory', '1'),
      cure: ({ admin }) => admin.config('SET', 'maxmemory', '0'),
      gateway: 'ok',
    },
  ],
  [
    'that became a replica',
    {
      cause: 'readonly',
      advice: 'this server is a replica',
      begin: async ({ admin }) => admin.replicaof('127.0.0.1', await freePort()),
      cure: ({ admin }) => admin.replicaof('NO', 'ONE'),
      gateway: 'ok',
    },
  ],
  [
    'that lacks the replicas it wants',
    {
      cause: 'noreplicas',
      advice: 'min-replicas-to-write',
      begin: ({ admin }) => admin.config('SET', 'min-replicas-to-write', '1'),
      cure: ({ admin }) => admin.config('SET', 'min-replicas-to-write', '0'),
      gateway: 'ok',
    },
  ],
  [
    'that is one node of a cluster',
    {
      cause: 'moved',
      advice: 'set redis.cluster.urls',
      // Its own choice would be a port of other programs.
      options: async () => ({
        settings: ['--cluster-enabled', 'yes', '--cluster-port', String(await freePort())],
      }),
      isFirst: true,
      begin: async ({ admin }) => {
        await admin.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383')
        await until('it serves', async () => String(await admin.cluster('INFO')).includes('cluster_state:ok'))
      },
      cure: null,
      // It has all slots; a node that has some answers a gateway with MOVED.
      gateway: 'ok',
    },
  ],
]

const warningsIn = (log: readonly Record<string, unknown>[]) =>
  log.filter(line => Number(line['level']) >= 40)

describe.each(FAULTS)(
  'a Redis %s',
  (_name, { cause, advice, options, isFirst = false, begin, cure, gateway }) => {
    async function start() {
      const server = await RedisServer.start(await options?.())
      onTestFinished(() => server.stop())
      if (isFirst) await begin(server)
      const console = await startConsole({ redisUrl: server.url })
      const replica = new Replica({ place: { ...NOWHERE, url: server.url } })
      onTestFinished(() => replica.running.stop())
      return { server, console, replica }
    }
    const announcerOf = async (console: RunningConsole) => (await console.health()).announcer

    test('is failed at the console, with its cause in the log once and in the metric, until it is cured', async () => {
      const { server, console } = await start()
      if (!isFirst) {
        await until('the console is connected', async () => (await announcerOf(console)) === 'ready')
        await begin(server)
      }
      // No change is made: a probe shows it.
      await until('the console notices', async () => (await announcerOf(console)) === 'failed')
      expect(await metricValue(console.metrics.redisUp)).toBe(0)
      const causes = warningsIn(console.log).filter(line => line['kind'] !== undefined)
      expect(causes).toMatchObject([{ kind: cause, advice: expect.stringContaining(advice) }])
      expect(await metricValue(console.metrics.redisFailing, { cause })).toBeGreaterThan(0)
      if (cure === null) return
      await cure(server)
      await until('the console is connected again', async () => (await announcerOf(console)) === 'ready')
      expect(await metricValue(console.metrics.redisFailing, { cause })).toBe(0)
    })

    test(`is ${gateway} at a gateway that gets no request`, async () => {
      const { server, replica } = await start()
      const isRedis = (state: string) => replica.running.health().redis === state
      if (!isFirst) {
        await until('the gateway reads', () => isRedis('ok'))
        await begin(server)
      }
      if (gateway === 'ok') {
        await until('the gateway reads', () => isRedis('ok'))
        return
      }
      await until('the gateway notices', () => isRedis('failed'))
      const named = replica.log.lines.filter(({ fields }) => 'cause' in fields && fields.cause === cause)
      expect(JSON.stringify(named)).toContain(advice)
      // One line for each of its two connections.
      expect(named.length).toBeLessThanOrEqual(2)
      if (cure === null) return
      await cure(server)
      await until('the gateway reads again', () => isRedis('ok'))
      expect(await metricValue(replica.metrics.redisFailing, { cause })).toBe(0)
    })
  },
)

test('a database that Redis does not have is never replaced by database 0', async () => {
  const server = await RedisServer.start()
  onTestFinished(() => server.stop())
  const console = await startConsole({ redisUrl: `${server.url}/99` })
  await until('it is noticed', async () => (await console.health()).announcer === 'failed')
  const request = { name: 'test key', scopes: ['workspace:read'] }
  const { status } = await console.send('POST', '/admin/v1/workspaces/ws_1/keys', request)
  expect([status, await server.admin.dbsize()]).toEqual([201, 0])
  expect(warningsIn(console.log)[0]).toMatchObject({ kind: 'database' })
})
