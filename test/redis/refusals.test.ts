import { describe, expect, onTestFinished, test } from 'vitest'
import { digestNo, recordOf } from '../support/key-records.ts'
import { metricValue } from '../support/metric-value.ts'
import { Replica } from '../support/redis-fleet.ts'
import { NOWHERE, type Place } from '../support/redis-group.ts'
import { ScriptedKeyService } from '../support/scripted-key-service.ts'
import { type Reply, ScriptedRedis } from '../support/scripted-redis.ts'
import { until } from '../support/until.ts'

const KEY = digestNo(1)

/** Error replies of a failing server. */
const REFUSALS = [
  '-LOADING Redis is loading the dataset in memory',
  '-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to "no".',
  '-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.',
  '-NOAUTH Authentication required.',
  "-READONLY You can't write against a read only replica.",
  "-NOPERM User gateway has no permissions to run the 'get' command",
  '-CLUSTERDOWN The cluster is down',
  '-TRYAGAIN Multiple keys request during rehashing of slot',
  "-OOM command not allowed when used memory > 'maxmemory'.",
  '-MOVED 1234 127.0.0.1:1',
  '-MOVED __proto__ 127.0.0.1:1',
  '-ASK 1234 127.0.0.1:1',
  '-ERR max number of clients reached',
]

async function startRedis(reply: Reply, place: (redis: ScriptedRedis) => Place) {
  const redis: ScriptedRedis = await ScriptedRedis.start(([name, ...rest]) => {
    if (name === 'CLUSTER') return [[0, 16_383, ['127.0.0.1', redis.port, 'id-of-the-node']]]
    return name === 'GETRANGE' ? reply : `OK ${rest.length}`
  })
  onTestFinished(() => redis.stop())
  const keyService = await ScriptedKeyService.start()
  onTestFinished(() => keyService.stop())
  const replica = new Replica({
    place: place(redis),
    keyServiceUrl: keyService.url,
    heartbeats: false,
    ttlSeconds: 0,
  })
  onTestFinished(() => replica.running.stop())
  await until('the gateway is connected', () => replica.isConnected)
  await until('Redis was asked', () => redis.commands.some(([name]) => name?.toUpperCase() === 'GETRANGE'))
  return { replica, keyService }
}

describe.each<[string, (redis: ScriptedRedis) => Place]>([
  ['a single Redis', redis => ({ ...NOWHERE, url: `redis://${redis.address}` })],
  ['a Redis Cluster', redis => ({ ...NOWHERE, cluster: { urls: [redis.address] } })],
])('%s', (_, place) => {
  test.each(REFUSALS)(
    'that answers %s could not be asked: the key is neither good nor bad for that',
    async reply => {
      const { replica, keyService } = await startRedis(reply, place)
      keyService.records.set(KEY, recordOf())
      expect(await replica.get(KEY)).toMatchObject({ kind: 'found', tier: 'key_service' })
      const failed = () => metricValue(replica.metrics.lookups, { tier: 'redis', result: 'error' })
      expect(await failed()).toBe(1)
      expect(await metricValue(replica.metrics.lookups, { tier: 'redis', result: 'miss' })).toBe(0)
      await until('/readyz says so', () => replica.running.health().redis !== 'ok')
      keyService.script = (_request, response) => response.destroy()
      expect(await replica.get(digestNo(2))).toMatchObject({ kind: 'unknown' })
      expect(await failed()).toBe(2)
    },
  )

  test.each<[string, Reply]>([
    ['a number', 7],
    ['a list', ['a', 'b']],
    ['nothing', null],
  ])('that answers %s in place of a record does not know the key', async (_what, reply) => {
    const { replica, keyService } = await startRedis(reply, place)
    keyService.records.set(KEY, recordOf())
    expect(await replica.get(KEY)).toMatchObject({ kind: 'found', tier: 'key_service' })
  })
})
