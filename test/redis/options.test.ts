import { readFileSync } from 'node:fs'
import { afterAll, describe, expect, test } from 'vitest'
import { findServer } from '../../src/redis/clients.ts'
import { findServername } from '../../src/redis/endpoint.ts'
import {
  type RedisSettings,
  reconnectDelayMs,
  safeOptions,
  sentinelAccess,
  serverAccess,
} from '../../src/redis/options.ts'
import { selfSigned } from '../support/certificates.ts'
import { keyStoreConfig } from '../support/key-store-config.ts'

const certificates = await selfSigned()
afterAll(() => certificates.remove())

function settingsOf(changes: Partial<RedisSettings>): RedisSettings {
  return { ...keyStoreConfig({}).redis, commandTimeoutMs: 100, ...changes }
}

function accessOf(changes: Partial<RedisSettings>) {
  return serverAccess(settingsOf(changes))
}

describe('the address of a single Redis', () => {
  test('may contain user, password and database', async () => {
    const url = 'redis://a%20user:pass%2Fword@redis.internal:6380/2'
    expect(accessOf({ url })).toEqual({ username: 'a user', password: 'pass/word', db: 2, tls: null })
    expect(await findServer(settingsOf({ url }))()).toEqual({ host: 'redis.internal', port: 6380 })
  })

  test('is overridden by the settings for user and password', () => {
    const login = { username: 'gateway', password: 'secret' }
    expect(accessOf({ url: 'redis://a:b@redis', ...login })).toMatchObject(login)
  })

  test('may contain a password with an unencoded percent sign', () => {
    expect(accessOf({ url: 'redis://:100%zz@redis' })).toMatchObject({ password: '100%zz' })
  })

  test.each([
    ['redis://redis', { host: 'redis', port: 6379 }],
    ['redis://[::1]:7000', { host: '::1', port: 7000 }],
  ])('%s is %j', async (url, server) => {
    expect(await findServer(settingsOf({ url }))()).toEqual(server)
  })

  test('of a user without a password signs that user in', () => {
    expect(accessOf({ url: 'redis://gateway@redis' })).toMatchObject({ username: 'gateway', password: '' })
    expect(accessOf({ url: 'redis://redis' })).toEqual({ db: 0, tls: null })
  })

  test.each([
    ['valkey://redis', null],
    ['valkeys://redis', {}],
    ['VALKEYS://redis', {}],
  ])('may have the scheme of Valkey: %s', (url, tls) => {
    expect(accessOf({ url }).tls).toEqual(tls)
  })

  test('cannot override options of the connection', () => {
    const settings = settingsOf({ url: 'redis://redis?commandTimeout=99999&enableOfflineQueue=true' })
    expect(safeOptions(settings, serverAccess(settings))).toMatchObject({
      commandTimeout: 100,
      enableOfflineQueue: false,
    })
  })
})

describe('TLS', () => {
  test('is verified, against the configured authority if there is one', () => {
    const { certFile: caFile, keyFile } = certificates
    const ca = readFileSync(caFile, 'utf8')
    expect(accessOf({ url: 'rediss://redis.internal', caFile }).tls).toEqual({ ca })
    expect(() => accessOf({ url: 'rediss://redis.internal', caFile: keyFile })).toThrow('redis.caFile')
    expect(accessOf({ url: 'rediss://redis.internal' }).tls).toEqual({})
    expect(accessOf({ url: 'redis://redis.internal', caFile }).tls).toBeNull()
  })

  test('is used for Sentinels, nodes and the servers they name if their addresses have the scheme rediss:', () => {
    const sentinel = { name: 'primary', urls: ['rediss://a', 'rediss://b'] }
    expect(accessOf({ sentinel }).tls).toEqual({})
    expect(sentinelAccess(settingsOf({ sentinel })).tls).toEqual({})
    expect(accessOf({ cluster: { urls: ['rediss://a'] } }).tls).toEqual({})
    expect(accessOf({ cluster: { urls: ['a:6379'] } }).tls).toBeNull()
  })

  test('expects the configured name in the certificate, also for a resolved address', () => {
    expect(findServername({ host: 'redis.internal', port: 1 })).toBe('redis.internal')
    expect(findServername({ host: '10.0.0.1', port: 1, servername: 'redis.internal' })).toBe('redis.internal')
    expect(findServername({ host: 'redis.internal.', port: 1 })).toBe('redis.internal')
    expect(findServername({ host: '10.0.0.1', port: 1 })).toBeUndefined()
  })
})

test('Sentinels have their own user and password', () => {
  const sentinel = { name: 'primary', urls: ['a'], username: 'watcher', password: 'of the watcher' }
  const settings = settingsOf({ sentinel, username: 'gateway', password: 'of the gateway' })
  expect(sentinelAccess(settings)).toMatchObject({ username: 'watcher', password: 'of the watcher' })
  expect(serverAccess(settings)).toMatchObject({ username: 'gateway', password: 'of the gateway' })
})

test('a lost Redis is retried within 50 ms to a second, without limit, and not by all replicas at once', () => {
  for (const attempt of [1, 2, 5, 10, 1_000, 1e9]) {
    expect(reconnectDelayMs(attempt, () => 0)).toBe(50)
    expect(reconnectDelayMs(attempt, () => 1)).toBeLessThanOrEqual(1_000)
  }
  expect(reconnectDelayMs(100, () => 1)).toBe(1_000)
  expect(reconnectDelayMs(1, () => 1)).toBe(100)
})

test('in a cluster each connection that subscribes or publishes uses another node than the one before', async () => {
  const urls = ['a:1', 'b:2', 'c:3']
  const known = [
    { host: 'd', port: 4 },
    { host: 'e', port: 5 },
  ]
  const asStarted = findServer(settingsOf({ cluster: { urls } }))
  const asLearnt = findServer(settingsOf({ cluster: { urls } }), () => known)
  for (const [find, count] of [
    [asStarted, 3],
    [asLearnt, 2],
  ] as const) {
    const visited: string[] = []
    for (let time = 0; time < 100; time++) visited.push((await find()).host)
    expect(new Set(visited).size).toBe(count)
    expect(visited.some((host, index) => host === visited[index + 1])).toBe(false)
  }
})
