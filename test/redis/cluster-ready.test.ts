import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { recordKeyName } from '../../src/domain/wire.ts'
import { createClusterClient } from '../../src/redis/clients.ts'
import { RedisConnection } from '../../src/redis/redis-connection.ts'
import { keyStoreConfig } from '../support/key-store-config.ts'
import { ClusterGroup } from '../support/redis-cluster.ts'
import { GATEWAY_USER } from '../support/redis-users.ts'

let group: ClusterGroup
beforeAll(async () => {
  group = await ClusterGroup.start({ replicas: 0 })
})
afterAll(() => group.stop())

/** Enough keys to be spread over all nodes. */
const KEYS = Array.from({ length: 60 }, (_, number) => recordKeyName(String(number).padStart(64, '0')))

/** Results of the first lookups, with only one node configured. */
async function firstLookUps() {
  const urls = group.place.cluster.urls.slice(0, 1)
  const { redis } = keyStoreConfig({ place: { ...group.place, cluster: { urls } }, ...GATEWAY_USER })
  const { promise: ready, resolve } = Promise.withResolvers<void>()
  const connection = new RedisConnection(createClusterClient(redis), { onReady: resolve })
  onTestFinished(() => connection.stop())
  connection.start()
  await ready
  expect(connection.isReady).toBe(true)
  return await Promise.allSettled(KEYS.map(key => connection.client.getrange(key, 0, 1)))
}

test('a connection to a cluster is ready once each node accepts commands', async () => {
  const outcomes = await firstLookUps()
  expect(outcomes.filter(({ status }) => status === 'rejected')).toEqual([])
})

test('a frozen node does not block the others', async () => {
  const [, frozen] = group.servers
  frozen?.freeze()
  onTestFinished(() => frozen?.thaw())
  const outcomes = await firstLookUps()
  expect(outcomes.filter(({ status }) => status === 'fulfilled').length).toBeGreaterThan(20)
})
