import type { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { createServerClient, findServer } from '../../src/redis/clients.ts'
import { RedisConnection } from '../../src/redis/redis-connection.ts'
import { keyStoreConfig } from '../support/key-store-config.ts'
import { RedisServer } from '../support/redis-server.ts'
import { until } from '../support/until.ts'

let server: RedisServer
let connection: RedisConnection<Redis>

beforeAll(async () => {
  server = await RedisServer.start()
})
afterAll(() => server.stop())

beforeEach(async () => {
  await server.admin.flushall()
  const settings = keyStoreConfig({ redisUrl: server.url }).redis
  connection = new RedisConnection(createServerClient(settings, findServer(settings)), {})
  connection.start()
  await until('the connection is ready', () => connection.isReady)
})
afterEach(() => connection.stop())

/** How many reads Redis has processed so far. */
async function readsOfRedis(): Promise<number> {
  return Number(/total_reads_processed:(\d+)/.exec(await server.admin.info('stats'))?.[1])
}

function read(keys: readonly string[]): Promise<(string | null)[]> {
  return Promise.all(
    keys.map(key => {
      connection.writeTogether()
      return connection.client.get(key)
    }),
  )
}

/** Reads that these commands caused, without those of the measurement. */
async function readsFor(keys: readonly string[]): Promise<number> {
  const before = await readsOfRedis()
  await read(keys)
  return (await readsOfRedis()) - before - 1
}

const keysOf = (count: number) => Array.from({ length: count }, (_, number) => `key:${number}`)

test('commands of one turn of the event loop reach Redis together', async () => {
  expect(await readsFor(keysOf(10))).toBe(1)
})

test('each command gets its own reply', async () => {
  await server.admin.mset({ 'key:0': 'zero', 'key:2': 'two' })
  expect(await read(keysOf(4))).toEqual(['zero', null, 'two', null])
})

test('a later command is not delayed', async () => {
  await read(keysOf(3))
  expect(await readsFor(keysOf(1))).toBe(1)
})

test('a full packet is sent before the end of the turn', () => {
  const { client } = connection
  const longest = Math.max(
    ...keysOf(200).map(key => {
      connection.writeTogether()
      void client.get(key)
      return client.stream.writableLength
    }),
  )
  expect(longest).toBeGreaterThan(1_000)
  expect(longest).toBeLessThan(2_000)
})

test('commands fail if the connection is lost before they are sent, and it reconnects', async () => {
  connection.writeTogether()
  const asked = connection.client.get('key:0')
  connection.client.stream.destroy()
  await expect(asked).rejects.toThrow()
  await until('the connection is ready again', () => connection.isReady)
  expect(await read(['key:9'])).toEqual([null])
})
