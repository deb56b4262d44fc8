import { afterAll, beforeAll, expect, test } from 'vitest'
import type { StoredKey } from '../../src/domain/key/key-record.ts'
import { decodeRecord, deriveRecordKey, encodeRecord, recordKeyName } from '../../src/domain/wire.ts'
import { SIGNING_SECRET, startConsole } from '../support/console.ts'
import { RedisServer } from '../support/redis-server.ts'
import { someKey } from '../support/stored-keys.ts'
import { until } from '../support/until.ts'

const recordKey = deriveRecordKey(SIGNING_SECRET)

let redis: RedisServer
beforeAll(async () => {
  redis = await RedisServer.start()
})
afterAll(() => redis.stop())

/** A key that the registry has lost, such as by a restore, while Redis still has it. */
async function lostKey(version: number): Promise<StoredKey> {
  const key = someKey({ expiresAtMs: Date.now() + 86_400_000, version })
  await redis.admin.set(recordKeyName(key.digest), encodeRecord(key.record, key.digest, recordKey))
  return key
}

test.each([1, 4])(
  'a key that is imported again outranks its earlier record of version %i in Redis, and can be revoked',
  async version => {
    const lost = await lostKey(version)
    const { send, health } = await startConsole({ redisUrl: redis.url })
    await until('it is connected', async () => (await health()).announcer === 'ready')
    const { workspaceId, hint, name, scopes, expiresAtMs } = lost.record
    const expiresAt = new Date(expiresAtMs).toISOString()
    const keys = [{ digest: lost.digest, hint, workspaceId, name, scopes, expiresAt }]
    expect((await send('POST', '/admin/v1/import', { keys })).body).toMatchObject({ imported: 1 })
    const { id } = (await send('POST', '/admin/v1/keys/lookup', { digest: lost.digest })).body.key
    const held = async () => {
      const text = (await redis.admin.get(recordKeyName(lost.digest))) ?? ''
      const record = decodeRecord(text, lost.digest, [recordKey])
      return record.ok ? record.grant : null
    }
    await until('it is announced', async () => (await held())?.id === id)
    expect(await held()).toMatchObject({ revokedAtMs: null, version: version + 1 })
    expect((await send('POST', `/admin/v1/keys/${id}/revoke`)).body).toMatchObject({ announced: true })
    expect(await held()).toMatchObject({ id, revokedAtMs: expect.any(Number), version: version + 2 })
  },
)
