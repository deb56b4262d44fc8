import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Announcement } from '../../src/console/announcing/announcer.ts'
import {
  createRedisAnnouncer,
  isUnanswered,
  type RecordStore,
  type RecordWrite,
  writeRecords,
} from '../../src/console/announcing/announcer.ts'
import type { RecordKeys } from '../../src/console/platform/capability.ts'
import type { StoredKey } from '../../src/domain/key/key-record.ts'
import {
  CHANGES_CHANNEL,
  decodeRecord,
  deriveRecordKey,
  encodeRecord,
  recordKeyName,
} from '../../src/domain/wire.ts'
import { createMetrics, type Metrics } from '../../src/observability/metrics/metrics.ts'
import { createRedisConnection } from '../../src/redis/announcing-connection.ts'
import { consoleConfig } from '../support/console.ts'
import { metricValue } from '../support/metric-value.ts'
import { RedisServer } from '../support/redis-server.ts'
import { silentLogger } from '../support/silent-logger.ts'
import { NOW_MS, someKey } from '../support/stored-keys.ts'
import { until } from '../support/until.ts'

const ours = deriveRecordKey(Buffer.alloc(32, 1))
const previous = deriveRecordKey(Buffer.alloc(32, 2))
const stranger = deriveRecordKey(Buffer.alloc(32, 3))
const recordKeys: RecordKeys = [ours, previous]
const DAY_MS = 86_400_000
const key = someKey({ expiresAtMs: Date.now() + 90 * DAY_MS })
const version = (number: number): StoredKey => ({ ...key, record: { ...key.record, version: number } })
/** Its message is its version. */
const announcementOf = (stored: StoredKey) => ({ key: stored, messages: [String(stored.record.version)] })
const textOf = (stored: StoredKey, recordKey = ours) => encodeRecord(stored.record, stored.digest, recordKey)

const FOREIGN_ENTRIES: [string, string | Buffer][] = [
  ['nothing', ''],
  ['no JSON', 'certainly not JSON'],
  ['bytes that are no text', Buffer.from([0xff, 0xfe, 0x00, 0x80])],
  ['a newer record that a stranger signed', textOf(version(99), stranger)],
  ['a newer record without a MAC', encodeRecord(version(99).record, key.digest, null)],
  ['another key’s record', encodeRecord(someKey({ version: 99 }).record, someKey().digest, ours)],
  ['a record with a changed scope', textOf(version(99)).replace('files:read', 'files:admin')],
  ['an unknown schema', textOf(version(99)).replace('"v":1', '"v":99')],
  ['a hundred kilobytes', 'x'.repeat(100_000)],
]

test('in any order of concurrent writers, the newest version stays', async () => {
  const foreign = fc.constantFrom(...FOREIGN_ENTRIES.map(([, held]) => held))
  const versions = fc.uniqueArray(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 6 })
  await fc.assert(
    fc.asyncProperty(fc.scheduler(), versions, foreign, async (scheduler, numbers, held) => {
      const store = new ScheduledSlots(scheduler, Buffer.from(held))
      const writers = numbers.map(number =>
        writeRecords(store, [announcementOf(version(number))], recordKeys),
      )
      await scheduler.waitFor(Promise.all(writers))
      expect(store.text).toBe(textOf(version(Math.max(...numbers))))
      expect(store.published.toSorted()).toEqual(numbers.map(String).toSorted())
    }),
  )
})

/** One slot in memory; fast-check decides who gets to read or write next. */
class ScheduledSlots implements RecordStore {
  text: string
  readonly published: string[] = []
  readonly #scheduler: fc.Scheduler
  #bytes: Uint8Array

  constructor(scheduler: fc.Scheduler, bytes: Uint8Array) {
    this.#scheduler = scheduler
    this.#bytes = bytes
    this.text = ''
  }

  writeAll(writes: readonly RecordWrite[]): Promise<readonly PromiseSettledResult<Uint8Array | null>[]> {
    return Promise.allSettled(writes.map(write => this.#write(write)))
  }

  async #write({ unverified, ...next }: RecordWrite): Promise<Uint8Array | null> {
    await this.#scheduler.schedule(Promise.resolve())
    const heldVersion = Number(/"version":(\d+)/.exec(Buffer.from(this.#bytes).toString())?.[1] ?? 0)
    const isUnverified = unverified !== null && Buffer.compare(this.#bytes, unverified) === 0
    if (heldVersion > next.key.record.version && !isUnverified) return this.#bytes
    this.#bytes = Buffer.from(next.text)
    this.text = next.text
    this.published.push(...next.messages)
    return null
  }

  async publish(message: string): Promise<void> {
    await this.#scheduler.schedule(Promise.resolve())
    this.published.push(message)
  }
}

test('fails after 32 attempts on an entry that others keep changing, and is retried later', async () => {
  const newer = textOf(version(99), stranger)
  const busy: RecordStore = {
    writeAll: writes => Promise.allSettled(writes.map(async () => Buffer.from(newer))),
    publish: async () => {},
  }
  const [result] = await writeRecords(busy, [announcementOf(key)], recordKeys)
  expect(String(result?.status === 'rejected' && result.reason)).toMatch(/kept changing/)
  // Redis answered each attempt: it carries none of them out later.
  expect(isUnanswered(result)).toBe(false)
})

describe('a record in a real Redis', () => {
  let redis: RedisServer
  let announcer: ReturnType<typeof createRedisAnnouncer>
  const metrics = createMetrics()
  beforeAll(async () => {
    redis = await RedisServer.start()
    announcer = createAnnouncer(metrics)
    announcer.start()
    await until('the announcer is connected', () => announcer.state() === 'ready')
  })
  afterAll(async () => {
    await announcer.stop()
    await redis.stop()
  })
  beforeEach(() => redis.client().flushall())

  function createAnnouncer(metrics: Metrics) {
    const config = { ...consoleConfig({ redisUrl: redis.url }).redis, commandTimeoutMs: 2000 }
    const parts = { config, metrics, logger: silentLogger, onUp: () => {} }
    const connection = createRedisConnection(parts)
    return createRedisAnnouncer({ connection, recordKeys, region: 'default' })
  }

  async function put(announcement: Announcement): Promise<void> {
    const [result] = await announcer.putAll([announcement])
    if (result?.status !== 'fulfilled') throw result?.reason
  }

  /** Each message from now on, and what a gateway finds that reads the record as soon as it has the message. */
  async function listen() {
    const received: { readonly message: string; readonly text: Promise<string | null> }[] = []
    const [subscriber, reader] = [redis.client(), redis.client()]
    onTestFinished(() => void subscriber.disconnect())
    subscriber.on('message', (_, message: string) => {
      received.push({ message, text: reader.get(recordKeyName(key.digest)) })
    })
    await subscriber.subscribe(CHANGES_CHANNEL)
    return received
  }

  test('matches the registry, has a valid MAC, and is kept for a day after the key expires', async () => {
    await put(announcementOf(key))
    const text = (await redis.client().get(recordKeyName(key.digest))) ?? ''
    const { id, workspaceId, scopes, hint, expiresAtMs } = key.record
    const unrestricted = { revokedAtMs: null, suspendedAtMs: null, allowedCidrs: [], plan: null }
    const grant = { id, workspaceId, scopes, hint, expiresAtMs, ...unrestricted, version: 1 }
    expect(decodeRecord(text, key.digest, [ours])).toEqual({ ok: true, grant })
    const expiresAt = await redis.client().pexpiretime(recordKeyName(key.digest))
    expect(expiresAt).toBe(key.record.expiresAtMs + DAY_MS)
  })

  test.each([
    ['an older version', version(1), ours, true],
    ['an older version that the previous secret signed', version(1), previous, true],
    ['the same version that the previous secret signed', version(2), previous, true],
    ['the same', version(2), ours, false],
    ['a newer version', version(3), ours, false],
    ['a newer version that the previous secret signed', version(3), previous, false],
  ])('over %s: the newest stays, and the change is published once', async (_, held, recordKey, replaced) => {
    await redis.client().set(recordKeyName(key.digest), textOf(held, recordKey))
    const received = await listen()
    await put(announcementOf(version(2)))
    const expected = replaced ? textOf(version(2)) : textOf(held, recordKey)
    expect(await redis.client().get(recordKeyName(key.digest))).toBe(expected)
    await announcer.publish('the end')
    await until('the last message arrives', () => received.some(({ message }) => message === 'the end'))
    expect(received.map(({ message }) => message)).toEqual(['2', 'the end'])
  })

  test('is there when a gateway receives the change', async () => {
    const received = await listen()
    await put(announcementOf(version(1)))
    await put(announcementOf(version(2)))
    await until('both changes arrive', () => received.length === 2)
    for (const { message, text } of received) {
      expect(await text).toSatisfy((held: string) =>
        [textOf(version(2)), textOf(version(Number(message)))].includes(held),
      )
    }
  })

  test.each(FOREIGN_ENTRIES.filter(([, held]) => held.length > 0))('replaces %s', async (_, held) => {
    await redis.client().set(recordKeyName(key.digest), held)
    await put(announcementOf(version(1)))
    expect(await redis.client().get(recordKeyName(key.digest))).toBe(textOf(version(1)))
  })

  test('replaces a foreign list under its name', async () => {
    await redis.client().lpush(recordKeyName(key.digest), 'a', 'b')
    await put(announcementOf(version(1)))
    expect(await redis.client().get(recordKeyName(key.digest))).toBe(textOf(version(1)))
  })

  test('is the newest after 20 concurrent writers', async () => {
    // The newest goes first: all have read before any writes, so the others are late with what they found.
    const numbers = Array.from({ length: 20 }, (_, index) => 20 - index)
    const results = await Promise.allSettled(numbers.map(number => put(announcementOf(version(number)))))
    expect(results[0]?.status).toBe('fulfilled')
    expect(await redis.client().get(recordKeyName(key.digest))).toBe(textOf(version(20)))
  })

  test('is written by the same command as those of changes that were committed together with its own', async () => {
    const sent = () => metricValue(metrics.redisCommands, { command: 'eval', outcome: 'ok' })
    const keys = Array.from({ length: 50 }, () => someKey({ expiresAtMs: Date.now() + DAY_MS }))
    const before = await sent()
    await Promise.all(keys.map(key => put(announcementOf(key))))
    expect(await sent()).toBe(before + 1)
    expect(await redis.client().exists(keys.map(({ digest }) => recordKeyName(digest)))).toBe(50)
  })

  test('that cannot be written fails alone: each of many changes at once has its own outcome, and is published once', async () => {
    const keys = Array.from({ length: 71 }, (_, index) =>
      someKey({ expiresAtMs: Date.now() + DAY_MS, ...(index === 35 ? { workspaceId: '' } : {}) }),
    )
    const received = await listen()
    const results = await Promise.allSettled(
      keys.map((key, index) => put({ key, messages: [`change ${index}`] })),
    )
    const failed = results.flatMap(({ status }, index) => (status === 'rejected' ? [index] : []))
    expect(failed).toEqual([35])
    expect(results[35]).toMatchObject({
      reason: { message: expect.stringContaining('no reader would take') },
    })
    expect(await redis.client().exists(keys.map(({ digest }) => recordKeyName(digest)))).toBe(70)
    await announcer.publish('the end')
    await until('the last message arrives', () => received.some(({ message }) => message === 'the end'))
    expect(received).toHaveLength(70 + 1)
  })

  test('that has no connection to go on fails at once, and is not counted as one without an answer', async () => {
    const own = createMetrics()
    const [result] = await createAnnouncer(own).putAll([announcementOf(key)])
    expect(result?.status).toBe('rejected')
    const counted = (outcome: string) => metricValue(own.redisCommands, { command: 'eval', outcome })
    expect(await Promise.all(['unavailable', 'timeout', 'error'].map(counted))).toEqual([1, 0, 0])
  })

  test('of a key that expired more than a day ago is not stored', async () => {
    const ended = someKey({ expiresAtMs: NOW_MS - 400 * DAY_MS })
    await put(announcementOf(ended))
    expect(await redis.client().exists(recordKeyName(ended.digest))).toBe(0)
  })
})
