import { afterEach, beforeEach, expect, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { decodeRecord, deriveRecordKey, recordKeyName } from '../../src/domain/wire.ts'
import { SIGNING_SECRET, startConsole } from '../support/console.ts'
import { RedisServer } from '../support/redis-server.ts'
import { until } from '../support/until.ts'

const LOST = 'redis has lost confirmed writes on an open connection, announcing changes again'

let redis: RedisServer
beforeEach(async () => {
  redis = await RedisServer.start({ settings: ['--enable-debug-command', 'yes'] })
})
afterEach(() => redis.stop())

const MARK = recordKeyName('announced-default')

async function startConnected() {
  const running = await startConsole({ redisUrl: redis.url })
  await until('it is connected', async () => (await running.health()).announcer === 'ready')
  const isMarked = async () => /"untilMs":[0-9]/.test(String(await redis.admin.get(MARK)))
  await until('everything is announced', isMarked)
  return running
}

async function isRevoked(digest: string) {
  const text = await redis.admin.get(recordKeyName(digest))
  const record = decodeRecord(text ?? '', digest, [deriveRecordKey(SIGNING_SECRET)])
  return record.ok && record.grant.revokedAtMs !== null
}

test('a revocation that Redis loses behind an open connection is announced again at once', async () => {
  const running = await startConnected()
  const issued = await running.send('POST', '/admin/v1/workspaces/ws_1/keys', {
    name: 'a',
    scopes: ['files:read'],
  })
  const digest = digestKey(issued.body.secret)
  await redis.admin.save()
  const { body } = await running.send('POST', `/admin/v1/keys/${issued.body.key.id}/revoke`)
  expect(body.announced).toBe(true)
  expect(await isRevoked(digest)).toBe(true)
  await redis.admin.debug('RELOAD', 'NOSAVE')
  await until('it is revoked again', () => isRevoked(digest))
  expect(running.log.filter(({ msg }) => msg === LOST)).toHaveLength(1)
  await until('heartbeats resume', () => running.log.some(({ msg }) => msg === 'heartbeats resumed'))
})
