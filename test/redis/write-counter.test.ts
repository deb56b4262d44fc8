import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { CHANGES_CHANNEL, recordKeyName } from '../../src/domain/wire.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { createRedisConnection } from '../../src/redis/announcing-connection.ts'
import { WriteCounter } from '../../src/redis/write-counter.ts'
import { Relays } from '../regions/relays.ts'
import { consoleConfig } from '../support/console.ts'
import { RedisServer } from '../support/redis-server.ts'
import { runs } from '../support/runs.ts'
import { until } from '../support/until.ts'

const LIST = recordKeyName('written')
const TOGETHER_MS = runs(3_000, 10_000)

describe('writes that are counted in Redis', () => {
  let redis: RedisServer
  beforeAll(async () => {
    redis = await RedisServer.start()
  })
  afterAll(() => redis.stop())
  beforeEach(() => redis.admin.flushall())

  function createCounter() {
    const found = { losses: 0, silences: 0 }
    const counter = new WriteCounter({
      evaluate: (...values) => redis.admin.callBuffer('eval', ...values),
      onLost: () => void found.losses++,
      onOtherSilent: () => void found.silences++,
    })
    return Object.assign(found, { count: (message?: string) => counter.count(CHANGES_CHANNEL, message) })
  }
  const held = async () => (await redis.admin.get(LIST)) ?? ''
  const goBackTo = (list: string) => redis.admin.set(LIST, list)

  test('one that is lost is found by the connection that made it, though another one goes on writing', async () => {
    const [a, b] = [createCounter(), createCounter()]
    await a.count()
    await b.count()
    const before = await held()
    await a.count()
    await goBackTo(before)
    for (let more = 0; more < 3; more++) await b.count()
    await a.count()
    expect([a.losses, b.losses]).toEqual([1, 0])
  })

  test('a loss is found once, though several were on their way, and each later one again', async () => {
    const counter = createCounter()
    for (let loss = 1; loss <= 2; loss++) {
      const before = await held()
      for (let more = 0; more < 5; more++) await counter.count()
      await goBackTo(before)
      await Promise.all([counter.count(), counter.count(), counter.count()])
      expect(counter.losses).toBe(loss)
      await counter.count()
      expect(counter.losses).toBe(loss)
    }
  })

  test('a message is published unless data went back', async () => {
    const received: string[] = []
    const subscriber = redis.client()
    subscriber.on('message', (_, text: string) => received.push(text))
    await subscriber.subscribe(CHANGES_CHANNEL)
    const counter = createCounter()
    expect(await counter.count('first')).toBe(true)
    const before = await held()
    await counter.count()
    await goBackTo(before)
    expect(await counter.count('on lost data')).toBe(false)
    expect(await counter.count('last')).toBe(true)
    await until('the last one arrives', () => received.includes('last'))
    expect(received).toEqual(['first', 'last'])
  })

  test('a connection that stops is noticed once by each other that goes on, one that stopped before is not', async () => {
    const [old, stops, a, b] = [createCounter(), createCounter(), createCounter(), createCounter()]
    const heartbeats = async (...counters: (typeof old)[]) => {
      for (const counter of counters) await counter.count('a heartbeat')
    }
    await heartbeats(old, stops, a, b)
    for (let round = 0; round < 6; round++) await heartbeats(stops, a, b)
    for (let round = 0; round < 3; round++) await heartbeats(a, b)
    expect([a.silences, b.silences]).toEqual([0, 0])
    for (let round = 0; round < 6; round++) await heartbeats(a, b)
    expect([a.silences, b.silences]).toEqual([1, 1])
    await heartbeats(stops, stops)
    for (let round = 0; round < 9; round++) await heartbeats(a, b)
    expect([a.silences, b.silences, stops.silences, a.losses]).toEqual([2, 2, 0, 0])
  })

  test('writes without a heartbeat, such as of a console that announces much, make no other count as silent', async () => {
    const [busy, slow] = [createCounter(), createCounter()]
    for (let round = 0; round < 3; round++) for (const each of [busy, slow]) await each.count('a heartbeat')
    for (let write = 0; write < 20; write++) await busy.count()
    await slow.count('a heartbeat')
    await busy.count('a heartbeat')
    expect(busy.silences).toBe(0)
  })

  test('the list keeps those who wrote last, and replaces what is no list', async () => {
    await redis.admin.lpush(LIST, 'a')
    const first = createCounter()
    expect(await first.count()).toBe(true)
    for (let other = 0; other < 200; other++) {
      await createCounter().count()
      if (other % 20 === 0) await first.count()
    }
    expect(first.losses).toBe(0)
    expect((await held()).length).toBeLessThan(5_000)
  })

  test('a right that the user lacks is an error, and no loss', async () => {
    await redis.addUser('writer', 'reset', 'on', 'nopass', '~postern:key:*', '-@all', '+eval', '+set')
    const client = redis.admin.duplicate({ username: 'writer', password: 'any', enableReadyCheck: false })
    onTestFinished(() => client.disconnect())
    let losses = 0
    const evaluate = (...values: (string | number)[]) => client.callBuffer('eval', ...values)
    const counter = new WriteCounter({ evaluate, onLost: () => void losses++, onOtherSilent: () => {} })
    await expect(counter.count(CHANGES_CHANNEL)).rejects.toThrow(/^NOPERM .*'getrange'/)
    expect(losses).toBe(0)
  })

  test('two consoles that announce at once over slow ways, some seconds long, find no loss', async () => {
    const relays = Relays.start()
    const logs = await Promise.all(
      [2, 30].map(async delayMs => {
        const { port } = await relays.open(redis.url, delayMs)
        // A machine that is busy for a moment must not break off what is counted.
        const { redis: usual } = consoleConfig({ redisUrl: `redis://127.0.0.1:${port}` })
        const config = { ...usual, commandTimeoutMs: 20_000 }
        const warnings: string[] = []
        const logger = pino({ level: 'warn' }, { write: line => void warnings.push(line) })
        const connection = createRedisConnection({ config, logger, metrics: createMetrics(), onUp: () => {} })
        onTestFinished(() => connection.disconnect())
        await connection.connect()
        await until('it is ready', () => connection.status === 'ready')
        const endsAtMs = performance.now() + TOGETHER_MS
        const send = async () => {
          while (performance.now() < endsAtMs) {
            await connection.callBuffer('eval', 'return 1', 1, recordKeyName('any'))
            await connection.publish(CHANGES_CHANNEL, 'a heartbeat')
          }
        }
        await Promise.all(Array.from({ length: 8 }, send))
        return warnings
      }),
    )
    expect(logs.flat().filter(line => line.includes('lost confirmed writes'))).toEqual([])
    const counts = [...(await held()).matchAll(/=(\d+),/g)].map(([, count]) => Number(count))
    expect(counts).toHaveLength(2)
    for (const count of counts) expect(count).toBeGreaterThan(10)
  })
})
