import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { deriveRecordKey, encodeRecord, recordKeyName } from '../../src/domain/wire.ts'
import { recordOf } from '../support/key-records.ts'
import { Parts } from '../support/parts.ts'
import type { Listening } from '../support/postern-process.ts'
import { exchange, get } from '../support/raw-client.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { scrapeOne } from '../support/scrape.ts'
import { SecretMount } from '../support/secret-mount.ts'
import { until } from '../support/until.ts'

/** Opaque keys carry no MAC: only the MAC on their records in Redis protects against forged records. */
const SECRET = randomBytes(32)
const TIMESTAMP = 'postern_config_last_reload_timestamp_seconds'

const parts = new Parts()
let redis: RedisServer
let gateway: Listening
let files: SecretMount
let good: Record<string, string>

beforeAll(async () => {
  redis = await parts.redis()
  const upstream = await parts.upstream()
  files = new SecretMount({ signing: '', settings: '' })
  good = {
    signing: SECRET.toString('base64'),
    settings: `keys: { format: opaque, signingSecretsFile: '${files.file('signing')}' }`,
  }
  files.swap(good)
  gateway = await parts.gateway({
    // It has those of its file.
    POSTERN_KEYS_SIGNING_SECRETS: undefined,
    POSTERN_KEY_SERVICE_TOKEN: undefined,
    POSTERN_CONFIG: files.file('settings'),
    POSTERN_REDIS_URL: redis.url,
    POSTERN_REDIS_HEARTBEATS: 'false',
    // What is tested is not how fast Redis is.
    POSTERN_REDIS_COMMAND_TIMEOUT_MS: '10000',
    POSTERN_UPSTREAM_URL: upstream.url,
    POSTERN_RELOAD_EVERY_SECONDS: '0',
  })
})
afterAll(async () => {
  await parts.stop()
  files.remove()
})

/** Reloads all settings. @returns whether it succeeded */
async function reload(): Promise<boolean> {
  const before = await scrapeOne(gateway.urls.ops, TIMESTAMP)
  gateway.process.child.kill('SIGHUP')
  await until('read again', async () => (await scrapeOne(gateway.urls.ops, TIMESTAMP)) > before)
  return (await scrapeOne(gateway.urls.ops, 'postern_config_last_reload_success')) === 1
}

/** Writes the record of a new key to Redis and sends a request with the key. */
async function statusWith(recordKey: ReturnType<typeof deriveRecordKey> | null): Promise<number> {
  const key = `opaque-${randomBytes(16).toString('hex')}`
  const record = recordOf({
    workspaceId: 'ws_1',
    scopes: ['workspace:read'],
    expiresAtMs: Date.now() + 60_000,
  })
  await redis.admin.set(recordKeyName(digestKey(key)), encodeRecord(record, digestKey(key), recordKey))
  return (await exchange(gateway.urls.gateway, get('/api/v1/workspaces/ws_1', key))).status
}

test.each([
  ['the secret file is emptied', { signing: '' }],
  ['the secret file holds an empty list', { signing: ',\n' }],
  ['the setting is an empty list', { settings: 'keys: { format: opaque, signingSecrets: [] }' }],
  ['the setting is removed', { settings: 'keys: { format: opaque }' }],
])('a forged record in Redis gives no access after a reload in which %s', async (_, spoilt) => {
  files.swap(spoilt)
  expect(await reload()).toBe(false)
  expect(await statusWith(null)).not.toBe(200)
  expect(await statusWith(deriveRecordKey(SECRET))).toBe(200)
  const said = gateway.process.log.findLast(({ level }) => level === 50)
  expect(said).toMatchObject({ msg: 'settings reload failed, keeping the last good settings' })
  expect(said?.['problem']).toMatch(/signingSecrets.*(?:is set but empty|was removed)/)

  files.swap(good)
  expect(await reload()).toBe(true)
})
