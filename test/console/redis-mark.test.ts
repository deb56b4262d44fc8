import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { consoleRedisChecks } from '../../src/doctor/redis-check.ts'
import { digestKey } from '../../src/domain/key/secret.ts'
import { decodeRecord, deriveRecordKey, encodeRecord, recordKeyName } from '../../src/domain/wire.ts'
import {
  type ConsoleOptions,
  consoleConfig,
  type RunningConsole,
  SIGNING_SECRET,
  startConsole,
} from '../support/console.ts'
import { defaultConfig } from '../support/default-config.ts'
import { RedisServer } from '../support/redis-server.ts'
import { revoked, someKey } from '../support/stored-keys.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'
import { until } from '../support/until.ts'

const HOUR_MS = 3_600_000
const LACKS = 'redis lacks announcements, announcing the changes of all keys'
const recordKey = deriveRecordKey(SIGNING_SECRET)
const markName = (region = 'default') => recordKeyName(`announced-${region}`)

describe('a Redis that lacks announcements', () => {
  let first: RedisServer
  let second: RedisServer
  let file: string
  beforeEach(async () => {
    ;[first, second] = await Promise.all([RedisServer.start(), RedisServer.start()])
    file = join(databaseDirectory(), 'keys.db')
  })
  afterEach(() => Promise.all([first.stop(), second.stop()]))

  async function startOn(redis: Pick<RedisServer, 'url'>, options: ConsoleOptions = { redisUrl: redis.url }) {
    const running = await startConsole({ databaseUrl: `sqlite:${file}`, ...options })
    await until('it is connected', async () => (await running.health()).announcer === 'ready')
    return running
  }

  async function issue({ send }: RunningConsole) {
    const { key, secret } = (
      await send('POST', '/admin/v1/workspaces/ws_1/keys', { name: 'a', scopes: ['files:read'] })
    ).body
    return { id: key.id, digest: digestKey(secret) }
  }

  async function revoke({ send, console }: RunningConsole, { id }: { readonly id: string }) {
    expect((await send('POST', `/admin/v1/keys/${id}/revoke`)).body).toMatchObject({ announced: true })
    // Within 65 minutes it would be announced to any Redis.
    letTwoHoursPass()
    await console.stop()
  }

  async function held(redis: RedisServer, digest: string) {
    const record = decodeRecord((await redis.admin.get(recordKeyName(digest))) ?? '', digest, [recordKey])
    return record.ok ? record.grant : null
  }

  /** What `postern doctor` finds. */
  async function examined(redis: RedisServer) {
    const config = consoleConfig({ databaseUrl: `sqlite:${file}`, redisUrl: redis.url })
    const [check] = consoleRedisChecks(config)
    return (await check?.run())?.found
  }

  const mark = async (redis: RedisServer, region?: string) => await redis.admin.get(markName(region))
  const complete = (redis: RedisServer, region?: string) =>
    until('everything is announced', async () => /"untilMs":[0-9]/.test((await mark(redis, region)) ?? ''))

  /** As if nothing had changed in the last two hours. */
  function letTwoHoursPass() {
    const database = new DatabaseSync(file)
    database.exec(`update keys set changed_at_ms = changed_at_ms - ${2 * HOUR_MS}`)
    database.close()
  }

  test('and was used before gets the changes of all keys: one revoked meanwhile does not work again', async () => {
    const onFirst = await startOn(first)
    const key = await issue(onFirst)
    await complete(first)
    await onFirst.console.stop()
    const onSecond = await startOn(second)
    await complete(second)
    await revoke(onSecond, key)
    expect(await held(first, key.digest)).toMatchObject({ revokedAtMs: null, version: 1 })
    expect(await examined(first)).toMatch(/lacks announcements/)
    expect(await examined(second)).not.toMatch(/lacks/)
    const { log } = await startOn(first)
    await until('it is revoked there', async () => (await held(first, key.digest))?.revokedAtMs != null)
    const found = 'the mark of an earlier time'
    expect(log).toContainEqual(expect.objectContaining({ msg: LACKS, found }))
    await complete(first)
  })

  test('of one region gets them, and the other regions do not', async () => {
    const regions = (eu: RedisServer): ConsoleOptions => ({
      regions: [
        { name: 'eu', redis: { ...defaultConfig().redis, url: eu.url } },
        { name: 'us', redis: { ...defaultConfig().redis, url: us.url } },
      ],
    })
    const us = await RedisServer.start()
    try {
      const onFirst = await startOn(first, regions(first))
      const key = await issue(onFirst)
      await complete(first, 'eu')
      await onFirst.console.stop()
      const onSecond = await startOn(second, regions(second))
      await complete(second, 'eu')
      await revoke(onSecond, key)
      const { log } = await startOn(first, regions(first))
      await until('it is revoked there', async () => (await held(first, key.digest))?.revokedAtMs != null)
      expect(log.filter(({ msg }) => msg === LACKS)).toMatchObject([{ region: 'eu' }])
    } finally {
      await us.stop()
    }
  })

  test('because it was restored from a snapshot of hours ago gets what changed since', async () => {
    const running = await startOn(first)
    const key = await issue(running)
    await complete(first)
    const names = [recordKeyName(key.digest), markName()]
    const snapshot = await first.admin.mget(names)
    await revoke(running, key)
    const old = String(snapshot[1]).replace(/"untilMs":\d+/, `"untilMs":${Date.now() - 3 * HOUR_MS}`)
    await first.admin.mset(names[0] ?? '', String(snapshot[0]), names[1] ?? '', old)
    const { log } = await startOn(first)
    await until('it is revoked there', async () => (await held(first, key.digest))?.revokedAtMs != null)
    expect(log.filter(({ msg }) => msg === LACKS)).toEqual([])
  })

  test('and holds a key that a rotation has made expire meanwhile, more than a day ago, loses its record', async () => {
    const onFirst = await startOn(first)
    const key = await issue(onFirst)
    await complete(first)
    await onFirst.console.stop()
    const onSecond = await startOn(second)
    await complete(second)
    await onSecond.console.stop()
    const database = new DatabaseSync(file)
    const changed = database.prepare('update keys set version = 2, expires_at_ms = ?, changed_at_ms = ?')
    changed.run(Date.now() - 49 * HOUR_MS, Date.now() - 50 * HOUR_MS)
    database.close()
    await startOn(first)
    await until('it is gone', async () => (await held(first, key.digest)) === null)
  })

  test('because it was restored from a snapshot gets everything, if a clock was ahead when that was made', async () => {
    const running = await startOn(first)
    const key = await issue(running)
    await complete(first)
    const names = [recordKeyName(key.digest), markName()]
    const [record, noted] = await first.admin.mget(names)
    await revoke(running, key)
    const ahead = String(noted).replace(/"untilMs":\d+/, `"untilMs":${Date.now() + 3 * HOUR_MS}`)
    await first.admin.mset(names[0] ?? '', String(record), names[1] ?? '', ahead)
    await startOn(first)
    await until('it is revoked there', async () => (await held(first, key.digest))?.revokedAtMs != null)
  })

  test('and has another value by the name of the mark gets a mark', async () => {
    await first.admin.lpush(markName(), 'a')
    await startOn(first)
    const isMarked = async () => (await first.admin.type(markName())) === 'string'
    await until('it is marked', isMarked)
    await complete(first)
  })

  test('is not one that the console used until it ended: nothing is announced again', async () => {
    const running = await startOn(first)
    const key = await issue(running)
    await complete(first)
    await revoke(running, key)
    await first.admin.del(recordKeyName(key.digest))
    const before = await mark(first)
    const { log } = await startOn(first)
    await until('it is recognised', async () => (await mark(first)) !== before)
    expect(await held(first, key.digest)).toBeNull()
    expect(log.filter(({ msg }) => msg === LACKS)).toEqual([])
  })

  test('and holds a later version of a key that the database lost gets one above it, if the key is revoked', async () => {
    const onFirst = await startOn(first)
    const key = await issue(onFirst)
    const grant = await until('it is announced', () => held(first, key.digest))
    const later = { ...someKey().record, ...grant, version: 1007 }
    await first.admin.set(recordKeyName(key.digest), encodeRecord(later, key.digest, recordKey))
    await onFirst.send('POST', `/admin/v1/keys/${key.id}/revoke`)
    await until('it is revoked there', async () => (await held(first, key.digest))?.revokedAtMs != null)
    expect(await held(first, key.digest)).toMatchObject({ version: 1008 })
  })

  test('and holds a revocation that the database lost keeps it', async () => {
    const onFirst = await startOn(first)
    const key = await issue(onFirst)
    const grant = await until('it is announced', () => held(first, key.digest))
    const { record } = revoked({ digest: key.digest, record: { ...someKey().record, ...grant, version: 7 } })
    const text = encodeRecord(record, key.digest, recordKey)
    await first.admin.set(recordKeyName(key.digest), text)
    expect((await onFirst.send('POST', `/admin/v1/keys/${key.id}/suspend`)).status).toBe(200)
    const database = new DatabaseSync(file, { readOnly: true })
    const waiting = database.prepare('select count(*) as waiting from outbox')
    await until('nothing is left to announce', () => waiting.get()?.['waiting'] === 0)
    database.close()
    expect(await first.admin.get(recordKeyName(key.digest))).toBe(text)
  })
})
