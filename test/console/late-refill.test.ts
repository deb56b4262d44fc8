import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { decodeRecord, deriveRecordKey, recordKeyName } from '../../src/domain/wire.ts'
import { SIGNING_SECRET, startConsole } from '../support/console.ts'
import { RedisServer } from '../support/redis-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'
import { until } from '../support/until.ts'

let redis: RedisServer
let proxy: TcpProxy
beforeEach(async () => {
  redis = await RedisServer.start()
  proxy = await TcpProxy.start(redis.url)
})
afterEach(async () => {
  await proxy.stop()
  await redis.stop()
})

test('a record of a lookup that Redis writes late does not revive a key that was revoked meanwhile', async () => {
  const file = join(databaseDirectory(), 'keys.db')
  const redisUrl = `redis://127.0.0.1:${proxy.port}`
  const { send, health } = await startConsole({ databaseUrl: `sqlite:${file}`, redisUrl })
  await until('it is connected', async () => (await health()).announcer === 'ready')
  const issued = await send('POST', '/admin/v1/workspaces/ws_1/keys', { name: 'a', scopes: ['files:read'] })
  const digest = digestKey(issued.body.secret)
  const name = recordKeyName(digest)
  await until('it is announced', async () => (await redis.admin.del(name)) === 1)
  let written = ''
  proxy.onPiece = (direction, bytes) => {
    if (direction === 'forth') written += bytes.toString('latin1')
  }
  proxy.hold('forth')
  expect((await send('GET', `/internal/v1/keys/${digest}`)).status).toBe(200)
  await until('it is on its way', async () => written.includes(name))
  // By another console, whose announcement Redis has evicted.
  const database = new DatabaseSync(file)
  const update = `update keys set version = 2, revoked_at_ms = ${Date.now()}, changed_at_ms = 1`
  await until('the console is in no transaction', async () => {
    try {
      database.exec(update)
      return true
    } catch {
      return false
    }
  })
  database.close()
  // Longer than the console waits for an answer.
  await new Promise(resolve => setTimeout(resolve, 700))
  proxy.resume()
  const held = async () => {
    const record = decodeRecord((await redis.admin.get(name)) ?? '', digest, [
      deriveRecordKey(SIGNING_SECRET),
    ])
    return record.ok ? record.grant : null
  }
  await until('it is revoked there', async () => (await held())?.revokedAtMs != null)
})
