import { hash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { PrepareReload } from '../../src/config/reloadable.ts'
import { recordKeyName } from '../../src/domain/wire.ts'
import { createCommandClient } from '../../src/redis/clients.ts'
import type { RedisSettings } from '../../src/redis/options.ts'
import { RedisConnection } from '../../src/redis/redis-connection.ts'
import { keyStoreConfig } from '../support/key-store-config.ts'
import { ClusterGroup } from '../support/redis-cluster.ts'
import type { RedisGroup } from '../support/redis-group.ts'
import { SentinelGroup } from '../support/redis-sentinel.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { startStandalone } from '../support/redis-standalone.ts'
import { GATEWAY_USER, SENTINEL_USER } from '../support/redis-users.ts'
import { until } from '../support/until.ts'

const RENEWED = 'the-password-that-was-renewed'
/** Enough keys to be spread over every node of a cluster. */
const KEYS = Array.from({ length: 30 }, (_, index) => recordKeyName(hash('sha256', String(index), 'hex')))

interface Started {
  readonly group: RedisGroup
  readonly sentinels: readonly RedisServer[]
}

async function startSentinels(): Promise<Started> {
  const group = await SentinelGroup.start()
  return { group, sentinels: group.sentinels }
}

describe.each([
  ['a single Redis', async (): Promise<Started> => ({ group: await startStandalone(), sentinels: [] })],
  ['Redis with Sentinels', startSentinels],
  [
    'a Redis Cluster',
    async (): Promise<Started> => ({ group: await ClusterGroup.start({ replicas: 0 }), sentinels: [] }),
  ],
] as const)('a password that is renewed at %s', (_, start) => {
  let group: RedisGroup
  let sentinels: readonly RedisServer[] = []
  beforeAll(async () => {
    const started = await start()
    group = started.group
    sentinels = started.sentinels
  })
  afterAll(() => group?.stop())

  test('is used for every new connection, to every server', async () => {
    const prepared: PrepareReload<RedisSettings>[] = []
    const { redis } = keyStoreConfig({ place: group.place, ...GATEWAY_USER })
    const client = createCommandClient(redis, prepare => void prepared.push(prepare))
    const connection = new RedisConnection(client, {})
    connection.start()
    const readAll = () =>
      Promise.all(KEYS.map(key => client.getrange(key, 0, 1))).then(
        () => true,
        () => false,
      )
    try {
      await until('every key can be read', readAll, 20_000)
      const sentinel = { ...redis.sentinel, ...(sentinels.length > 0 ? { password: RENEWED } : {}) }
      for (const prepare of prepared) prepare({ ...redis, password: RENEWED, sentinel })()
      await renew(group.servers, GATEWAY_USER)
      await renew(sentinels, SENTINEL_USER)
      // Open connections stay open.
      expect(await readAll()).toBe(true)
      let killed = 0
      for (const server of group.servers) {
        killed += Number(await server.admin.call('CLIENT', 'KILL', 'USER', GATEWAY_USER.username))
      }
      expect(killed).toBeGreaterThanOrEqual(group.kind === 'cluster' ? group.servers.length : 1)
      await until('every key can be read over new connections', readAll, 20_000)
    } finally {
      connection.stop()
    }
  })
})

/** Replaces the password of a user. */
async function renew(
  servers: readonly RedisServer[],
  { username, password }: { username: string; password: string },
): Promise<void> {
  for (const server of servers) await server.addUser(username, `>${RENEWED}`, `<${password}`)
}
