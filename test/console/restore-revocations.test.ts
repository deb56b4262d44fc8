import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { toKeyRow } from '../../src/console/platform/database/key-row.ts'
import type { StoredKey } from '../../src/domain/key/key-record.ts'
import { fingerprintSecret } from '../../src/domain/key/secret.ts'
import { deriveRecordKey, encodeRecord, recordKeyName } from '../../src/domain/wire.ts'
import { openDatabase } from '../support/open-database.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { RedisServer } from '../support/redis-server.ts'
import { SIGNING_SECRET } from '../support/signing-secret.ts'
import { revoked, someKey } from '../support/stored-keys.ts'
import { databaseDirectory, temporaryDirectory } from '../support/temporary-directory.ts'

const OTHER_SECRET = Buffer.from('b3RoZXIgc2VjcmV0LCAzMiBieXRlcyBsb25nLCBvayE', 'base64')
const WORKS_AGAIN = /work again/

let redis: RedisServer
/** Of another region. */
let far: RedisServer
beforeAll(async () => {
  ;[redis, far] = await Promise.all([RedisServer.start(), RedisServer.start()])
})
afterAll(async () => void (await Promise.all([redis.stop(), far.stop()])))
beforeEach(async () => void (await Promise.all([redis.admin.flushall(), far.admin.flushall()])))

const liveKey = () => someKey({ expiresAtMs: Date.now() + 90 * 86_400_000 })

/** An installation with its keys in Redis, and a backup of it. */
async function installation(keys: readonly StoredKey[] = [liveKey(), liveKey()]) {
  const directory = databaseDirectory()
  const file = join(directory, 'postern.db')
  const url = `sqlite:${file}`
  const backup = join(directory, 'backup.db')
  const database = await openDatabase(url)
  if (keys.length > 0) {
    await database.writer
      .insertInto('keys')
      .values(keys.map(key => toKeyRow(key, key.record.createdAtMs)))
      .execute()
  }
  await database.writer
    .insertInto('signing_secrets')
    .values({ fingerprint: fingerprintSecret(SIGNING_SECRET), first_used_at_ms: 1, signs_audit_at_ms: 0 })
    .execute()
  await database.close()
  for (const key of keys) await announce(redis, key)
  const environment = {
    POSTERN_DATABASE_URL: url,
    POSTERN_REDIS_URL: redis.url,
    POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
    // By default 100 ms, which a busy machine can take.
    POSTERN_REDIS_COMMAND_TIMEOUT_MS: '30000',
  }
  expect(await runPosternHere(['database', 'backup', backup], environment)).toMatchObject({ code: 0 })
  const readRows = (columns: string) => {
    const reader = new DatabaseSync(file, { readOnly: true })
    const rows = reader.prepare(`select ${columns} from keys order by id`).all()
    reader.close()
    return rows.map(row => ({ ...row }))
  }
  return {
    keys,
    file,
    backup,
    target: join(directory, 'copy.db'),
    restore: (changed: Readonly<Record<string, string>> = {}, ...flags: string[]) =>
      runPosternHere(['database', 'restore', backup, '--replace', ...flags], { ...environment, ...changed }),
    copy: (changed: Readonly<Record<string, string>> = {}, ...flags: string[]) =>
      runPosternHere(['database', 'copy', backup, join(directory, 'copy.db'), ...flags], {
        ...environment,
        ...changed,
      }),
    /** As the database of the console says, which a refused restore leaves as it is. */
    readState: () => readRows('revoked_at_ms, version'),
    readRows,
    write: (statement: string) => {
      const writer = new DatabaseSync(file)
      writer.exec(statement)
      writer.close()
    },
  }
}

/** Of an installation, as its backup has it. */
function restricted(change: Partial<StoredKey['record']>): StoredKey {
  const { digest, record } = liveKey()
  return { digest, record: { ...record, ...change, version: 2 } }
}

async function announce(server: RedisServer, key: StoredKey, secret = SIGNING_SECRET): Promise<void> {
  await server.admin.set(
    recordKeyName(key.digest),
    encodeRecord(key.record, key.digest, deriveRecordKey(secret)),
  )
}

const secretsOf = (...secrets: Buffer[]) => ({
  POSTERN_KEYS_SIGNING_SECRETS: secrets.map(secret => secret.toString('base64')).join(','),
})

describe('a restore never makes a key work again that was revoked since, unless an option says so', () => {
  test('it takes over a revocation that Redis knows', async () => {
    const { keys, restore, readState } = await installation()
    await announce(redis, revoked(keys[0] as StoredKey))
    expect(await restore()).toMatchObject({ code: 0, stdout: expect.stringContaining('1 key revoked since') })
    expect(readState()).toMatchObject([{ revoked_at_ms: expect.any(Number) }, { revoked_at_ms: null }])
  })

  test('it refuses the signing secrets of another installation, which verify nothing', async () => {
    const { keys, restore, readState } = await installation()
    await announce(redis, revoked(keys[0] as StoredKey))
    const before = readState()
    for (const flags of [[], ['--allow-missing'], ['--without-redis']]) {
      const { code, stderr } = await restore(secretsOf(OTHER_SECRET), ...flags)
      expect({ code, stderr }).toEqual({
        code: 65,
        stderr: expect.stringMatching(/^keys\.signingSecrets: none/),
      })
    }
    expect(readState()).toEqual(before)
    expect(await restore(secretsOf(OTHER_SECRET, SIGNING_SECRET))).toMatchObject({ code: 0 })
  })

  test('it refuses a Redis that lost its data, unless it is to do without Redis, and says what follows', async () => {
    const { restore, readState } = await installation()
    await redis.admin.flushall()
    const before = readState()
    for (const flags of [[], ['--allow-missing']]) {
      const { code, stderr } = await restore({}, ...flags)
      expect({ code, stderr }).toEqual({ code: 65, stderr: expect.stringMatching(WORKS_AGAIN) })
      expect(stderr).toContain('--without-redis')
      // What was counted before is true of a restore that was refused.
      expect(stderr.split('\n')[0]).toBe('2 of 2 keys compared with Redis')
    }
    expect(readState()).toEqual(before)
    expect(await restore({}, '--without-redis')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Keys revoked since the backup are active again'),
    })
  })

  test('it refuses the Redis of another installation', async () => {
    const { restore } = await installation()
    await redis.admin.flushall()
    for (let others = 0; others < 3; others++) await announce(redis, liveKey())
    expect(await restore()).toMatchObject({ code: 65, stderr: expect.stringMatching(WORKS_AGAIN) })
  })

  test('it refuses records that a secret signed which it does not have', async () => {
    const { keys, restore, readState } = await installation()
    const before = readState()
    // The secret was rotated after the backup: the list of then does not verify the revocation.
    await announce(redis, revoked(keys[0] as StoredKey), OTHER_SECRET)
    expect(await restore()).toMatchObject({
      code: 65,
      stderr: expect.stringMatching(
        /1 of 2 keys in use.*1 have one that none of keys\.signingSecrets signed/,
      ),
    })
    for (const key of keys) await announce(redis, key, OTHER_SECRET)
    expect(await restore()).toMatchObject({ code: 65, stderr: expect.stringMatching(WORKS_AGAIN) })
    expect(readState()).toEqual(before)
    expect(await restore(secretsOf(OTHER_SECRET, SIGNING_SECRET))).toMatchObject({ code: 0 })
  })

  test('it refuses a Redis that lost the record of one key, or has one of before the backup, and names the key', async () => {
    const [changed, other] = [someKey({ expiresAtMs: Date.now() + 86_400_000, version: 3 }), liveKey()]
    const { restore, readState } = await installation([changed, other])
    const before = readState()
    await redis.admin.del(recordKeyName(changed.digest))
    const refused = {
      code: 65,
      stderr: expect.stringMatching(`1 of 2 keys in use \\(${changed.record.id}\\)`),
    }
    expect(await restore()).toMatchObject(refused)
    await announce(redis, { ...changed, record: { ...changed.record, version: 2 } })
    expect(await restore()).toMatchObject(refused)
    expect(readState()).toEqual(before)
    await announce(redis, revoked(other))
    const { code, stdout } = await restore({}, '--allow-missing')
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining(changed.record.id) })
    expect(stdout).toContain('1 key revoked since the backup')
  })

  test('it refuses a region whose Redis is empty, and names it', async () => {
    const { keys, restore } = await installation()
    const config = join(temporaryDirectory(), 'postern.yaml')
    const withRegions = (...urls: string[]) => {
      const regions = urls.map((url, index) => ({ name: `region-${index}`, redis: { url } }))
      writeFileSync(config, JSON.stringify({ regions }))
      return { POSTERN_CONFIG: config }
    }
    const bothRegions = withRegions(redis.url, far.url)
    expect(await restore(bothRegions)).toMatchObject({
      code: 65,
      stderr: expect.stringContaining('region-1'),
    })
    for (const key of keys) await announce(far, key)
    // The region that the console could reach last knows most.
    await announce(far, revoked(keys[1] as StoredKey))
    expect(await restore(bothRegions)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('1 key revoked since the backup'),
    })
  })

  test('a later backup keeps its revocations, suspensions and networks though an earlier one was restored before it', async () => {
    const [gone, paused, confined, short] = [
      revoked(liveKey()),
      restricted({ suspendedAtMs: 5 }),
      restricted({ allowedCidrs: ['192.0.2.0/24'] }),
      restricted({ expiresAtMs: Date.now() + 86_400_000 }),
    ]
    const { keys, restore, readRows } = await installation([gone, paused, confined, short])
    // As the earlier backup had them, and its restore announced them.
    for (const { digest, record } of keys) {
      const earlier = { revokedAtMs: null, suspendedAtMs: null, allowedCidrs: [] }
      const expiresAtMs = Date.now() + 90 * 86_400_000
      await announce(redis, { digest, record: { ...record, ...earlier, expiresAtMs, version: 1001 } })
    }
    expect(await restore()).toMatchObject({ code: 0 })
    const rows = readRows('id, revoked_at_ms, suspended_at_ms, allowed_cidrs, expires_at_ms')
    expect(rows.find(({ id }) => id === gone.record.id)).toMatchObject({
      revoked_at_ms: gone.record.revokedAtMs,
    })
    expect(rows.find(({ id }) => id === paused.record.id)).toMatchObject({ suspended_at_ms: 5 })
    expect(rows.find(({ id }) => id === confined.record.id)).toMatchObject({
      allowed_cidrs: '["192.0.2.0/24"]',
    })
    expect(rows.find(({ id }) => id === short.record.id)).toMatchObject({
      expires_at_ms: short.record.expiresAtMs,
    })
  })

  test('it takes over a resumption and wider networks that Redis knows', async () => {
    const paused = restricted({ suspendedAtMs: 5, allowedCidrs: ['192.0.2.0/24'] })
    const { restore, readRows } = await installation([paused])
    const resumed = { ...paused.record, suspendedAtMs: null, allowedCidrs: [], version: 3 }
    await announce(redis, { digest: paused.digest, record: resumed })
    expect(await restore()).toMatchObject({ code: 0 })
    expect(readRows('suspended_at_ms, allowed_cidrs')).toEqual([
      { suspended_at_ms: null, allowed_cidrs: null },
    ])
  })

  test('it takes over a revocation that Redis missed and the replaced database has in its outbox', async () => {
    const { keys, restore, readState, write } = await installation()
    const [key] = keys
    write(`update keys set revoked_at_ms = 5, version = 2 where id = '${key?.record.id}'`)
    write(`insert into outbox (region, digest, version, at_ms) values ('default', '${key?.digest}', 2, 5)`)
    expect(await restore()).toMatchObject({ code: 0, stdout: expect.stringContaining('1 key revoked since') })
    expect(readState()).toMatchObject([{ revoked_at_ms: 5 }, { revoked_at_ms: null }])
  })

  test('it takes over from the replaced database that a key has ended, of which Redis has no record any more', async () => {
    const { keys, restore, readRows, write } = await installation([liveKey(), liveKey(), liveKey()])
    const [rotated, ended] = keys
    // Expired by a rotation for more than a day.
    write(
      `update keys set expires_at_ms = 5, version = 2, replaced_by = 'key_x' where id = '${rotated?.record.id}'`,
    )
    write(`update keys set revoked_at_ms = 6, version = 2 where id = '${ended?.record.id}'`)
    for (const key of [rotated, ended]) await redis.admin.del(recordKeyName(key?.digest ?? ''))
    expect(await restore()).toMatchObject({ code: 0, stdout: expect.stringContaining('1 key revoked since') })
    expect(readRows('expires_at_ms < 100 as expired, revoked_at_ms')).toEqual([
      { expired: 1, revoked_at_ms: null },
      { expired: 0, revoked_at_ms: 6 },
      { expired: 0, revoked_at_ms: null },
    ])
  })

  test('it takes over from the replaced database which keys have ended, also without Redis', async () => {
    const { keys, restore, readState, write } = await installation()
    write(`update keys set revoked_at_ms = 5, version = 2 where id = '${keys[0]?.record.id}'`)
    expect(await restore({}, '--without-redis')).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(
        /Taken over from the replaced database: 1 key revoked .*\nOther keys revoked/,
      ),
    })
    expect(readState()).toMatchObject([{ revoked_at_ms: 5 }, { revoked_at_ms: null }])
  })

  test('it says so where a damaged database is replaced, whose outbox cannot be read', async () => {
    const { keys, file, restore } = await installation()
    for (const key of keys) await announce(redis, key)
    writeFileSync(file, 'no database')
    const says = (since: string) =>
      expect.stringMatching(
        new RegExp(`^The replaced database cannot be read: .*revoked ${since} works again`, 'm'),
      )
    expect(await restore()).toMatchObject({ code: 0, stderr: says('while Redis was away') })
    writeFileSync(file, 'no database')
    expect(await restore({}, '--without-redis')).toMatchObject({ code: 0, stderr: says('since the backup') })
  })

  test('it needs no record of keys that are revoked or expired already, and none for a fresh installation', async () => {
    const expired = someKey({ expiresAtMs: Date.now() - 1 })
    for (const keys of [[], [revoked(liveKey()), expired]]) {
      const { restore } = await installation(keys)
      await redis.admin.flushall()
      expect(await restore()).toMatchObject({ code: 0 })
    }
  })
})

describe('a copy', () => {
  test('is refused for other signing secrets, an empty Redis, and a database that is not the newest', async () => {
    const { keys, copy } = await installation()
    expect(await copy(secretsOf(OTHER_SECRET))).toMatchObject({
      code: 65,
      stderr: expect.stringMatching(/^keys\.signingSecrets: none/),
    })
    await announce(redis, revoked(keys[0] as StoredKey))
    expect(await copy()).toMatchObject({ code: 65, stderr: expect.stringContaining('not the newest') })
    await redis.admin.flushall()
    expect(await copy()).toMatchObject({ code: 65, stderr: expect.stringMatching(WORKS_AGAIN) })
    expect(await copy({}, '--without-redis')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Not compared with Redis'),
    })
  })

  test('is done where Redis knows nothing newer', async () => {
    const { copy } = await installation()
    const { code, stdout } = await copy()
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.not.stringContaining('Not compared') })
  })
})
