import { rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type RedisSettings, redisOptions, retryDelayMs } from '../../src/keystore/redis-options.ts'

function optionsOf(settings: Partial<RedisSettings> & { url: string }) {
  return redisOptions({ beats: true, commandTimeoutMs: 100, connectTimeoutMs: 500, ...settings })
}

describe('the address of Redis', () => {
  test('may hold user, password and database', () => {
    const options = optionsOf({ url: 'redis://a%20user:pass%2Fword@redis.internal:6380/2' })
    expect(options).toMatchObject({
      host: 'redis.internal',
      port: 6380,
      username: 'a user',
      password: 'pass/word',
      db: 2,
    })
  })

  test('yields to the settings for user and password', () => {
    const options = optionsOf({ url: 'redis://a:b@redis', username: 'gateway', password: 'secret' })
    expect(options).toMatchObject({ username: 'gateway', password: 'secret', port: 6379, db: 0 })
  })

  test('may be of IPv6', () => {
    expect(optionsOf({ url: 'redis://[::1]:6379' })).toMatchObject({ host: '::1' })
  })

  test('cannot override how the connection behaves', () => {
    const options = optionsOf({ url: 'redis://redis?commandTimeout=99999&enableOfflineQueue=true' })
    expect(options).toMatchObject({ commandTimeout: 100, enableOfflineQueue: false })
  })

  test('of rediss: means TLS that is verified, against the given authority where there is one', () => {
    const caFile = join(tmpdir(), `postern-ca-${process.pid}.pem`)
    writeFileSync(caFile, 'of a test')
    const { tls } = optionsOf({ url: 'rediss://redis.internal', caFile })
    expect(tls).toMatchObject({ servername: 'redis.internal', ca: Buffer.from('of a test') })
    expect(tls).not.toHaveProperty('rejectUnauthorized')
    expect(optionsOf({ url: 'redis://redis.internal', caFile })).not.toHaveProperty('tls')
    rmSync(caFile)
  })
})

test('a lost Redis is tried again within 50 ms to a second, for ever, and not by all replicas at once', () => {
  for (const attempt of [1, 2, 5, 10, 1_000, 1e9]) {
    expect(retryDelayMs(attempt, () => 0)).toBe(50)
    expect(retryDelayMs(attempt, () => 1)).toBeLessThanOrEqual(1_000)
  }
  expect(retryDelayMs(100, () => 1)).toBe(1_000)
  expect(retryDelayMs(1, () => 1)).toBe(100)
})
