import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import type { Redis } from 'ioredis'
import { beforeEach, describe, expect, test } from 'vitest'
import { encodeRecord, REDIS_PROBE_KEYS } from '../../src/domain/wire.ts'
import { InvalidationListener } from '../../src/keys/invalidation/invalidation-listener.ts'
import { RedisAccess } from '../../src/keys/redis-access.ts'
import { createMetrics, type Metrics } from '../../src/observability/metrics/metrics.ts'
import { rememberSocket } from '../../src/redis/clients.ts'
import type { Endpoint, FindServer } from '../../src/redis/endpoint.ts'
import { digestNo, RECORD_KEY, recordOf } from '../support/key-records.ts'
import { keyStoreConfig } from '../support/key-store-config.ts'
import { LogSpy } from '../support/log-spy.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { heartbeatMessage, MESSAGE_KEY } from '../support/messages.ts'
import { metricValue } from '../support/metric-value.ts'
import { settled } from '../support/until.ts'

const KEY = digestNo(1)
const A: Endpoint = { host: '10.0.0.1', port: 6379 }
const B: Endpoint = { host: '10.0.0.2', port: 6379 }
const RECORD = Buffer.from(encodeRecord(recordOf({ version: 3 }), KEY, RECORD_KEY))

/** The part of an ioredis client that is used. */
class FakeRedis extends EventEmitter {
  status = 'wait'
  readonly options = {}
  readonly calls: string[] = []
  readonly find: FindServer

  constructor(find: FindServer) {
    super()
    this.find = find
  }

  async connect(): Promise<void> {
    this.calls.push('connect')
  }

  /** Opens the connection to the server that it finds now, or to another one. */
  async open(at?: Endpoint): Promise<Endpoint> {
    const found = await this.find()
    const { host, port } = at ?? found
    const socket = { remoteAddress: host, remotePort: port, writableCorked: 1 }
    // Only the two addresses of a socket are read.
    rememberSocket(this as unknown as Redis, socket as unknown as Socket)
    this.status = 'ready'
    this.emit('ready')
    await settled()
    return found
  }

  disconnect(reconnect = false): void {
    this.calls.push(reconnect ? 'reconnect' : 'disconnect')
    this.status = 'close'
    this.emit('close')
    if (reconnect) this.emit('reconnecting')
  }

  async subscribe(): Promise<void> {
    this.calls.push('subscribe')
  }

  async getrangeBuffer(key: string): Promise<Buffer> {
    if (!REDIS_PROBE_KEYS.includes(key)) this.calls.push('getrange')
    return RECORD
  }
}

let clock: ManualClock
let metrics: Metrics
let log: LogSpy
let found: Endpoint
let clients: FakeRedis[]
let invalidations: InvalidationListener
let access: RedisAccess
let sentMs: number
beforeEach(() => {
  clock = new ManualClock()
  metrics = createMetrics()
  log = new LogSpy()
  found = A
  clients = []
  sentMs = 0
  invalidations = new InvalidationListener({
    clock,
    metrics,
    needsHeartbeats: true,
    messageKeys: () => [MESSAGE_KEY],
  })
  access = new RedisAccess({
    settings: keyStoreConfig({ redisUrl: 'redis://redis' }).redis,
    recordKeys: () => [RECORD_KEY],
    onReload: () => {},
    invalidations,
    clock,
    metrics,
    logger: log,
    network: {
      findServer: () => async () => found,
      createPrimaryQuery: () => null,
      createServerClient: (_settings, find) => {
        const client = new FakeRedis(find)
        clients.push(client)
        // No other part of a client is used.
        return client as unknown as Redis
      },
    },
  })
  access.start()
})

const reader = () => clientNo(0)
const subscriber = () => clientNo(1)
function clientNo(index: number): FakeRedis {
  const client = clients[index]
  if (client === undefined) throw new Error('There are two clients, the reader first')
  return client
}

async function connect(): Promise<void> {
  await subscriber().open()
  await reader().open()
  heartbeat()
}

function heartbeat(): void {
  const text = heartbeatMessage({ monotonicMs: ++sentMs, atMs: clock.wallMs() })
  subscriber().emit('message', 'channel', text)
}

const read = () => access.tier.get(KEY)

test('both connections open at the start and close at the end; the gateway is up while it can read', async () => {
  expect(clients.map(({ calls }) => calls)).toEqual([['connect'], ['connect']])
  expect(access.isUp).toBe(false)
  await connect()
  expect([access.isUp, invalidations.isConnected(), subscriber().calls]).toEqual([
    true,
    true,
    ['connect', 'subscribe'],
  ])
  access.stop()
  expect(clients.map(({ calls }) => calls.at(-1))).toEqual(['disconnect', 'disconnect'])
  expect([access.isUp, invalidations.isConnected()]).toEqual([false, false])
  expect(log.lines).toEqual([])
})

test('a record is read, and the command is counted', async () => {
  await connect()
  expect(await read()).toMatchObject({ kind: 'found', grant: { version: 3 } })
  expect(await metricValue(metrics.redisCommands, { command: 'getrange', outcome: 'ok' })).toBe(1)
})

describe('records are read from the server to which the gateway is subscribed', () => {
  test('so the reader goes there, and not where the next failover points', async () => {
    await subscriber().open()
    heartbeat()
    found = B
    expect(await reader().open()).toEqual({ ...A, servername: A.host })
  })

  test('by the name in its certificate', async () => {
    found = { ...A, servername: 'redis.example' }
    await subscriber().open()
    heartbeat()
    expect(await reader().open()).toEqual(found)
  })

  test('or where it is found, as long as the subscription does not count', async () => {
    await subscriber().open()
    found = B
    expect(await reader().open()).toEqual(B)
  })

  test('or where it is found, if the connection of the subscriber has just broken', async () => {
    await subscriber().open()
    heartbeat()
    // A socket that was destroyed has no addresses, and no other part of one is read; its event follows.
    rememberSocket(subscriber() as unknown as Redis, {} as unknown as Socket)
    found = B
    expect(await reader().open()).toEqual(B)
  })

  test('so a reader at another server is skipped, and reconnects', async () => {
    await subscriber().open()
    await reader().open(B)
    heartbeat()
    expect(await read()).toMatchObject({
      kind: 'failed',
      why: 'skipped',
      error: { message: expect.stringContaining('another server') },
    })
    expect(reader().calls).toEqual(['connect', 'reconnect'])
    await reader().open()
    expect(await read()).toMatchObject({ kind: 'found' })
  })

  test('so one that was connected before the subscriber reconnected is replaced: a proxy may lead it to another server', async () => {
    await connect()
    subscriber().emit('close')
    await subscriber().open()
    heartbeat()
    expect(await read()).toMatchObject({ kind: 'failed', why: 'skipped' })
    expect(reader().calls).toEqual(['connect', 'reconnect'])
    await reader().open()
    expect(await read()).toMatchObject({ kind: 'found' })
    access.watch()
    expect(reader().calls).toEqual(['connect', 'reconnect', 'getrange'])
  })

  test('so one whose connection began before that of the subscriber is replaced as soon as it is open', async () => {
    await connect()
    reader().emit('close')
    await reader().find()
    subscriber().emit('close')
    await subscriber().open()
    heartbeat()
    reader().status = 'ready'
    reader().emit('ready')
    access.watch()
    expect(reader().calls.at(-1)).toBe('reconnect')
  })

  test('which is noticed also while no request arrives', async () => {
    await subscriber().open()
    await reader().open(B)
    access.watch()
    expect(reader().calls).toEqual(['connect'])
    heartbeat()
    access.watch()
    expect(reader().calls).toEqual(['connect', 'reconnect'])
  })

  test('except while no heartbeat vouches for any server', async () => {
    await connect()
    await reader().open(B)
    clock.advance(1_001)
    expect(await read()).toMatchObject({ kind: 'found' })
  })
})

test('a lost connection is logged by its part, and each reconnection is counted', async () => {
  await connect()
  for (const client of clients) {
    client.status = 'close'
    client.emit('close')
    client.emit('reconnecting')
  }
  expect(log.lines.map(({ message }) => message).sort()).toEqual([
    'redis reader failing',
    'redis subscriber failing',
  ])
  expect(await metricValue(metrics.redisReconnects)).toBe(2)
  expect([access.isUp, invalidations.isConnected()]).toEqual([false, false])
  await connect()
  expect(log.count('redis reader recovered') + log.count('redis subscriber recovered')).toBe(2)
})

test('a subscription without heartbeats is replaced by the watch, and logged', async () => {
  await connect()
  clock.advance(3_001)
  access.watch()
  expect(subscriber().calls).toEqual(['connect', 'subscribe', 'reconnect'])
  expect(log.count('invalidation failing')).toBe(1)
})
