import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createInProcessAnnouncer } from '../../src/console/announcing/announcer.ts'
import type { StoredKey } from '../../src/domain/key/key-record.ts'
import { digestKey } from '../../src/domain/key/secret.ts'
import { deriveRecordKey, encodeRecord, recordKeyName } from '../../src/domain/wire.ts'
import { type RunningConsole, SIGNING_SECRET, startConsole } from '../support/console.ts'
import { RedisServer } from '../support/redis-server.ts'
import { insert, openRepository } from '../support/repository.ts'
import { revoked, someKey } from '../support/stored-keys.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'
import { until } from '../support/until.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const recordKey = deriveRecordKey(SIGNING_SECRET)
const clock = { wallMs: () => Date.now(), monotonicMs: () => performance.now() }
const textOf = ({ record, digest }: StoredKey) => encodeRecord(record, digest, recordKey)
const sync = ({ send }: RunningConsole, body?: object) => send('POST', '/admin/v1/sync', body)

describe('a sync', () => {
  let redis: RedisServer
  beforeAll(async () => {
    redis = await RedisServer.start()
  })
  afterAll(() => redis.stop())
  beforeEach(() => redis.client().flushall())

  /** A console whose Redis knows nothing of these keys, though nothing is left to announce. */
  async function startedWith(keys: readonly StoredKey[]) {
    const databaseUrl = `sqlite:${join(databaseDirectory(), 'keys.db')}`
    const repository = await openRepository(databaseUrl, clock)
    for (const key of keys) await insert(repository, key)
    await repository.deletePendingChanges(await repository.claimChanges(10_000))
    await repository.close()
    const running = await startConsole({ databaseUrl, redisUrl: redis.url })
    await until('it is connected', async () => (await running.health()).announcer === 'ready')
    return running
  }
  const held = (key: StoredKey) => redis.client().get(recordKeyName(key.digest))

  test('writes every record that Redis should hold, in any state', async () => {
    const live = someKey({ expiresAtMs: Date.now() + HOUR_MS })
    const retiring = someKey({ expiresAtMs: Date.now() + HOUR_MS, replacedBy: 'key_next' })
    const gone = revoked(someKey({ expiresAtMs: Date.now() + HOUR_MS }))
    const expired = someKey({ expiresAtMs: Date.now() - DAY_MS + HOUR_MS })
    const longExpired = someKey({ expiresAtMs: Date.now() - DAY_MS - 1 })
    const running = await startedWith([live, retiring, gone, expired, longExpired])
    const { status, body } = await sync(running)
    expect({ status, body }).toEqual({ status: 200, body: { synced: 4, total: 4 } })
    for (const key of [live, retiring, gone, expired]) expect(await held(key)).toBe(textOf(key))
    expect(await held(longExpired)).toBeNull()
  })

  test('works page by page and returns the total', async () => {
    const keys = Array.from({ length: 5 }, () => someKey({ expiresAtMs: Date.now() + HOUR_MS }))
    const running = await startedWith(keys)
    const first = (await sync(running, { limit: 2 })).body
    expect(first).toEqual({ synced: 2, total: 5, cursor: expect.any(String) })
    const second = (await sync(running, { limit: 2, cursor: first.cursor })).body
    const last = (await sync(running, { limit: 2, cursor: second.cursor })).body
    expect(last).toEqual({ synced: 1, total: 5 })
    expect(await Promise.all(keys.map(held))).toEqual(keys.map(textOf))
  })

  test('goes on without a total where there were too many keys to count', async () => {
    const keys = Array.from({ length: 5 }, () => someKey({ expiresAtMs: Date.now() + HOUR_MS }))
    const running = await startedWith(keys)
    const { cursor } = (await sync(running, { limit: 2 })).body
    const second = (await sync(running, { limit: 2, cursor: cursor.replace(/^[0-9]+/, '') })).body
    expect(second).toEqual({ synced: 2, cursor: expect.stringMatching(/^\.key_/) })
    expect((await sync(running, { limit: 2, cursor: second.cursor })).body).toEqual({ synced: 1 })
  })

  test('replaces forged and older records, never newer ones', async () => {
    const [forged, old, newer] = Array.from({ length: 3 }, () =>
      revoked(someKey({ expiresAtMs: Date.now() + HOUR_MS })),
    )
    if (forged === undefined || old === undefined || newer === undefined) throw new Error('There are three')
    const running = await startedWith([forged, old, newer])
    const next = revoked(newer)
    const before = { record: { ...old.record, revokedAtMs: null, version: 1 }, digest: old.digest }
    await redis.client().set(recordKeyName(forged.digest), textOf(forged).replace('ws_1', 'ws_2'))
    await redis.client().set(recordKeyName(old.digest), textOf(before))
    await redis.client().set(recordKeyName(newer.digest), textOf(next))
    expect((await sync(running, {})).body).toEqual({ synced: 3, total: 3 })
    expect(await held(forged)).toBe(textOf(forged))
    expect(await held(old)).toBe(textOf(old))
    expect(await held(newer)).toBe(textOf(next))
  })

  test('of an empty registry completes at once', async () => {
    expect((await sync(await startedWith([]))).body).toEqual({ synced: 0, total: 0 })
  })

  test('is rejected while Redis cannot be written, and works afterwards', async () => {
    const running = await startedWith([someKey({ expiresAtMs: Date.now() + HOUR_MS })])
    await redis.client().config('SET', 'maxmemory', '1')
    const { status, body } = await sync(running)
    await redis.client().config('SET', 'maxmemory', '0')
    const error = 'Redis is unavailable; retry the same request'
    expect({ status, body }).toEqual({ status: 503, body: { code: 'redis_unavailable', error } })
    await until('the console has noticed', async () => (await sync(running)).status === 200)
  })

  test.each([
    [{ limit: 0 }, /^limit must be a whole number from 1 to 1000$/],
    [{ limit: 1001 }, /^limit must be/],
    [{ limit: '10' }, /^limit must be/],
    [{ cursor: 'key_x' }, /^cursor must be/],
    [{ cursor: 7 }, /^cursor must be/],
    [{ all: true }, /^Unknown field all$/],
  ])('with %j is refused by the name of the field', async (body, text) => {
    const answer = await sync(await startConsole(), body)
    expect({ status: answer.status, code: answer.body.code }).toEqual({
      status: 400,
      code: 'invalid_request',
    })
    expect(answer.body.error).toMatch(text)
  })
})

test('without a reachable Redis a sync is rejected with the reason', async () => {
  const redis = await RedisServer.absent()
  for (const options of [{}, { redisUrl: redis.url }]) {
    const { status, body } = await sync(await startConsole(options))
    expect({ status, code: body.code }).toEqual({ status: 503, code: 'redis_unavailable' })
  }
})

test('in one process, without Redis, a sync writes nothing', async () => {
  const running = await startConsole({ parts: { announcer: createInProcessAnnouncer(() => {}) } })
  await running.send('POST', '/admin/v1/workspaces/ws_1/keys', { name: 'a', scopes: ['files:read'] })
  expect((await sync(running)).body).toEqual({ synced: 1, total: 1 })
})

test('a lookup of many keys restores all records that Redis has lost', async () => {
  const redis = await RedisServer.start()
  try {
    const running = await startConsole({ redisUrl: redis.url })
    await until('it is connected', async () => (await running.health()).announcer === 'ready')
    const digests: string[] = []
    for (let index = 0; index < 200; index++) {
      const body = { name: 'a', scopes: ['files:read'] }
      const issued = await running.send('POST', '/admin/v1/workspaces/ws_1/keys', body)
      digests.push(digestKey(issued.body.secret))
    }
    await redis.admin.flushall()
    expect((await running.send('POST', '/internal/v1/lookups', { digests })).status).toBe(200)
    await until('they are back', async () => (await redis.countRecords()) === 200)
  } finally {
    await redis.stop()
  }
})
