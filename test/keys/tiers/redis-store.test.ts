import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../../src/domain/clock.ts'
import { encodeRecord, recordKeyName } from '../../../src/domain/wire.ts'
import { MeasuredReader, RedisStore } from '../../../src/keys/tiers/redis-store.ts'
import { FailureLog } from '../../../src/observability/failure-log.ts'
import { createMetrics, type Metrics } from '../../../src/observability/metrics/metrics.ts'
import { createServerClient, findServer } from '../../../src/redis/clients.ts'
import { RedisConnection } from '../../../src/redis/redis-connection.ts'
import { digestNo, OTHER_RECORD_KEY, RECORD_KEY, recordOf } from '../../support/key-records.ts'
import { keyStoreConfig } from '../../support/key-store-config.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { metricValue } from '../../support/metric-value.ts'
import { RedisServer } from '../../support/redis-server.ts'
import { until } from '../../support/until.ts'

const KEY = digestNo(1)
const COMMAND_TIMEOUT_MS = 250
/** As long as ioredis would wait by itself for a Redis that is frozen, or longer. */
const CLIENT_WAITS_MS = 8_000
const PASSWORD = 'the-password-of-the-gateway'

let server: RedisServer
let metrics: Metrics
let log: LogSpy
let connection: RedisConnection
let store: RedisStore

beforeAll(async () => {
  server = await RedisServer.start()
  await server.addGatewayUser('gateway', PASSWORD)
})
afterAll(() => server.stop())

beforeEach(async () => {
  await server.admin.flushall()
  connect(PASSWORD)
  await until('the reader is ready', () => connection.isReady)
})
afterEach(() => {
  server.thaw()
  connection.stop()
})

function connect(password: string): void {
  metrics = createMetrics()
  log = new LogSpy()
  const settings = keyStoreConfig({ redisUrl: server.url, username: 'gateway', password }).redis
  const failures = new FailureLog('redis reader', log, systemClock)
  connection = new RedisConnection(createServerClient(settings, findServer(settings)), {
    onReady: () => failures.succeeded(),
    onTrouble: error => failures.failed(error),
    onReconnecting: () => metrics.redisReconnects.inc(),
  })
  const deps = { metrics, clock: systemClock, commandTimeoutMs: COMMAND_TIMEOUT_MS }
  store = new RedisStore(new MeasuredReader(connection, deps), () => [RECORD_KEY])
  connection.start()
}

function commands(outcome: string): Promise<number> {
  return metricValue(metrics.redisCommands, { command: 'getrange', outcome })
}

/** Bytes that the server sent to all clients. */
async function bytesSent(): Promise<number> {
  return Number(/total_net_output_bytes:(\d+)/.exec(await server.admin.info('stats'))?.[1])
}

describe('a record in Redis', () => {
  test('is found by a user that may only GETRANGE and SUBSCRIBE', async () => {
    await server.admin.set(recordKeyName(KEY), encodeRecord(recordOf({ version: 4 }), KEY, RECORD_KEY))
    expect(await store.get(KEY)).toMatchObject({ kind: 'found', grant: { workspaceId: 'ws_1', version: 4 } })
    expect(await commands('ok')).toBe(1)
    expect(await server.admin.call('ACL', 'LOG')).toEqual([])
    expect(log.lines).toEqual([])
  })

  test('that does not exist is a miss, not an absence', async () => {
    expect(await store.get(KEY)).toEqual({ kind: 'miss' })
  })

  test('is found if it is revoked, so that the response can give the reason', async () => {
    const revoked = recordOf({ revokedAtMs: Date.parse('2026-11-19T00:00:00Z') })
    await server.admin.set(recordKeyName(KEY), encodeRecord(revoked, KEY, RECORD_KEY))
    expect(await store.get(KEY)).toMatchObject({ kind: 'found', grant: { revokedAtMs: revoked.revokedAtMs } })
  })

  const good = encodeRecord(recordOf(), KEY, RECORD_KEY)
  test.each([
    ['has no MAC', encodeRecord(recordOf(), KEY, null)],
    ['has a MAC of another key', encodeRecord(recordOf(), KEY, OTHER_RECORD_KEY)],
    ['was copied from another key', encodeRecord(recordOf(), digestNo(2), RECORD_KEY)],
    ['was given another workspace', good.replace('ws_1', 'ws_2')],
    ['is cut off', good.slice(0, -20)],
    ['is of a newer schema', good.replace('"v":1', '"v":4')],
    ['is not JSON', 'nonsense'],
    ['is far too long', 'x'.repeat(100_000)],
  ])('that %s is as good as not there', async (_what, text) => {
    await server.admin.set(recordKeyName(KEY), text)
    expect(await store.get(KEY)).toEqual({ kind: 'miss', unreadable: true })
  })

  test('is found up to 16 KiB; one byte more makes it a miss', async () => {
    const fill = (bytes: number) => good + ' '.repeat(bytes - Buffer.byteLength(good))
    await server.admin.set(recordKeyName(KEY), fill(16 * 1024))
    expect(await store.get(KEY)).toMatchObject({ kind: 'found' })
    await server.admin.set(recordKeyName(KEY), fill(16 * 1024 + 1))
    expect(await store.get(KEY)).toEqual({ kind: 'miss', unreadable: true })
  })

  test('is not read beyond that limit', async () => {
    await server.admin.setrange(recordKeyName(KEY), 64 * 1024 * 1024, 'x')
    const sentBefore = await bytesSent()
    expect(await store.get(KEY)).toEqual({ kind: 'miss', unreadable: true })
    expect((await bytesSent()) - sentBefore).toBeLessThan(64 * 1024)
  })

  test('replaced by a value of another type is a failure, not a crash', async () => {
    await server.admin.lpush(recordKeyName(KEY), 'not', 'a', 'text')
    expect(await store.get(KEY)).toMatchObject({ kind: 'failed', why: 'unusable' })
    expect(await commands('error')).toBe(1)
  })
})

describe('a failing Redis', () => {
  test('that is frozen delays a lookup by at most the command timeout', async () => {
    server.freeze()
    const beganMs = performance.now()
    expect(await store.get(KEY)).toMatchObject({ kind: 'failed' })
    expect(performance.now() - beganMs).toBeLessThan(CLIENT_WAITS_MS)
    expect(await commands('timeout')).toBe(1)
  })

  test('that resumes never returns the record of another lookup', async () => {
    for (const number of [1, 2, 3]) {
      const record = recordOf({ workspaceId: `ws_${number}` })
      await server.admin.set(
        recordKeyName(digestNo(number)),
        encodeRecord(record, digestNo(number), RECORD_KEY),
      )
    }
    server.freeze()
    await Promise.all([1, 2, 3].map(number => store.get(digestNo(number))))
    server.thaw()
    await until('Redis replies again', async () => (await store.get(digestNo(1))).kind === 'found')
    for (const number of [3, 2, 1]) {
      const answer = await store.get(digestNo(number))
      expect(answer).toMatchObject({ kind: 'found', grant: { workspaceId: `ws_${number}` } })
    }
  })

  test('that stays frozen is disconnected after a second, and lookups then fail at once', async () => {
    server.freeze()
    await until('the connection is closed', async () => {
      await store.get(KEY)
      return (await commands('unavailable')) > 0
    })
    const [timeouts, unavailable] = [await commands('timeout'), await commands('unavailable')]
    for (let time = 0; time < 10; time++) expect(await store.get(KEY)).toMatchObject({ kind: 'failed' })
    expect(await commands('timeout')).toBe(timeouts)
    expect(await commands('unavailable')).toBe(unavailable + 10)
    server.thaw()
    await until('Redis replies again', async () => (await store.get(KEY)).kind === 'miss')
  })

  test('that is down is logged once, not at each attempt, and reconnects by itself', async () => {
    await server.kill()
    await until('several attempts were made', async () => (await metricValue(metrics.redisReconnects)) >= 4)
    expect(await store.get(KEY)).toMatchObject({ kind: 'failed' })
    expect(await commands('unavailable')).toBe(1)
    expect(log.count('redis reader failing')).toBe(1)
    await server.revive()
    await server.addGatewayUser('gateway', PASSWORD)
    await until('Redis replies again', async () => (await store.get(KEY)).kind === 'miss')
    expect(log.count('redis reader recovered')).toBe(1)
  })

  test('that rejects the password is retried without limit, and no log line contains the password', async () => {
    connection.stop()
    connect('a-wrong-password')
    await until('several attempts were made', async () => (await metricValue(metrics.redisReconnects)) >= 3)
    expect(await store.get(KEY)).toMatchObject({ kind: 'failed' })
    expect(log.text).toContain('WRONGPASS')
    expect(log.text).not.toContain('a-wrong-password')
  })

  test('that loses its users while connected is used again once they are restored', async () => {
    await server.addUser('gateway', 'off')
    await server.admin.call('CLIENT', 'KILL', 'USER', 'gateway')
    await until('the lookup failing', async () => (await store.get(KEY)).kind === 'failed')
    await server.addUser('gateway', 'on')
    await until('Redis replies again', async () => (await store.get(KEY)).kind === 'miss')
  })
})
