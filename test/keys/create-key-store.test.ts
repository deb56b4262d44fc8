import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { neverReloads, type OnReload, type PrepareReload } from '../../src/config/reloadable.ts'
import { CHANGES_CHANNEL } from '../../src/domain/wire.ts'
import { createKeyStore, deriveVerifyingKeys, type RunningKeyStore } from '../../src/keys/create-key-store.ts'
import { createMetrics, type Metrics } from '../../src/observability/metrics/metrics.ts'
import { ConsoleDouble } from '../support/console-double.ts'
import { digestNo, recordOf } from '../support/key-records.ts'
import { type ConfigChanges, keyStoreConfig } from '../support/key-store-config.ts'
import { LogSpy } from '../support/log-spy.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { changeMessage, heartbeatMessage, OTHER_MESSAGE_KEY } from '../support/messages.ts'
import { metricValue } from '../support/metric-value.ts'
import { RedisServer } from '../support/redis-server.ts'
import { answer, KEY_SERVICE_TOKEN, ScriptedKeyService } from '../support/scripted-key-service.ts'
import { until } from '../support/until.ts'
import { usageRequest } from '../support/usage-request.ts'

const KEY = digestNo(1)
const PASSWORD = 'the-password-of-the-gateway'
const REVOKED = recordOf({ version: 2, revokedAtMs: Date.parse('2026-11-20T00:00:00Z') })

/** Long timeout for responses that do arrive, also on a busy machine. */
const PATIENT = { commandTimeoutMs: 30_000, keyServiceTimeoutMs: 30_000 }

let server: RedisServer
let keyService: ScriptedKeyService
let console_: ConsoleDouble
/** Clock of gateway and console: on a busy machine no heartbeat is late and no record too old unless the test says so. */
let clock: ManualClock
let metrics: Metrics
let log: LogSpy
let running: RunningKeyStore
const printed = [vi.spyOn(console, 'warn'), vi.spyOn(console, 'error')]

beforeAll(async () => {
  server = await RedisServer.start()
})
afterAll(() => server.stop())

beforeEach(async () => {
  await server.admin.flushall()
  await server.addGatewayUser('gateway', PASSWORD)
  keyService = await ScriptedKeyService.start()
  clock = new ManualClock()
  console_ = new ConsoleDouble(server, clock)
  console_.startHeartbeats()
})
afterEach(async () => {
  console_.stopHeartbeats()
  server.thaw()
  await running.stop()
  await keyService.stop()
  for (const spy of printed) expect(spy).not.toHaveBeenCalled()
})

function start(changes: ConfigChanges = {}): RunningKeyStore {
  const redis = { redisUrl: server.url, username: 'gateway', password: PASSWORD }
  return startWith(keyStoreConfig({ ...redis, keyServiceUrl: keyService.url, ...PATIENT, ...changes }))
}

function startWith(
  config: ReturnType<typeof keyStoreConfig>,
  onReload: OnReload<typeof config> = neverReloads,
): RunningKeyStore {
  metrics = createMetrics()
  log = new LogSpy()
  running = createKeyStore({ config, metrics, logger: log, clock, onReload })
  running.start()
  return running
}

async function versionOf(digest: string): Promise<number | string> {
  const lookup = await running.keyStore.get(digest)
  return lookup.kind === 'found' ? lookup.grant.version : lookup.kind
}

/** Waits until both connections are up. */
async function connects(): Promise<void> {
  await until('the gateway is connected', () => running.health().changes === 'connected')
  await until('Redis is ok', () => running.health().redis === 'ok')
}

/** On a busy machine a single lookup may time out; the next ones must not. */
async function knows(digest: string, version: number | string, withinMs = 10_000): Promise<void> {
  await until(`the answer is ${version}`, async () => (await versionOf(digest)) === version, withinMs)
}

function reconnects(): Promise<number> {
  return metricValue(metrics.redisReconnects)
}

/** Number of messages with that result so far. */
function count(result: string): Promise<number> {
  return metricValue(metrics.invalidations, { result })
}

describe('a gateway whose Redis user may only GETRANGE and SUBSCRIBE', () => {
  test('is connected, and rejects a revoked key as soon as the change is announced', async () => {
    start()
    await console_.write(KEY, recordOf())
    await connects()
    await knows(KEY, 1)
    await console_.write(KEY, REVOKED)
    expect(await console_.announce(KEY, 2)).toBe(1)
    await knows(KEY, 2, 2_000)
    expect(await server.admin.call('ACL', 'LOG')).toEqual([])
    expect(running.health()).toEqual({ redis: 'ok', changes: 'connected', keyService: 'on' })
    await until('the gauge of Redis is up', async () => (await metricValue(metrics.redisUp)) === 1)
    expect(log.text).not.toContain('NOPERM')
  })

  test('uses the key service if even SUBSCRIBE is forbidden, and does not retry Redis in a loop', async () => {
    await server.addUser('gateway', 'reset', 'on', `>${PASSWORD}`, '+getrange', '~postern:key:*')
    keyService.records.set(KEY, recordOf())
    start()
    await until('it is logged', () => log.text.includes('NOPERM'))
    expect(await versionOf(KEY)).toBe(1)
    expect(running.health()).toMatchObject({ redis: 'failed', changes: 'disconnected' })
    expect(await reconnects()).toBe(0)
  })
})

describe('a gateway that starts while Redis is down', () => {
  test('starts at once, uses the key service, and connects when Redis is up', async () => {
    await server.kill()
    keyService.records.set(KEY, recordOf())
    start()
    expect(await versionOf(KEY)).toBe(1)
    expect(running.health()).toEqual({ redis: 'down', changes: 'disconnected', keyService: 'on' })
    await server.revive()
    await server.addGatewayUser('gateway', PASSWORD)
    await connects()
  })
})

describe('a lost subscription', () => {
  test('loses no revocation: a key revoked without a subscriber is rejected afterwards', async () => {
    start()
    await console_.write(KEY, recordOf())
    await connects()
    await knows(KEY, 1)
    await console_.write(KEY, REVOKED)
    keyService.records.set(KEY, REVOKED)
    // In one transaction, so that the gateway cannot reconnect in between.
    const message = changeMessage({ digest: KEY, version: 2, atMs: clock.wallMs() })
    const kill = server.admin.multi().call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    expect((await kill.publish(CHANGES_CHANNEL, message).exec())?.[1]).toEqual([null, 0])
    await until('the connection is lost', async () => (await reconnects()) > 0)
    expect(await versionOf(KEY)).toBe(2)
    await connects()
    expect(await versionOf(KEY)).toBe(2)
  })

  test('repeatedly during a burst of revocations lets no revoked key through', async () => {
    keyService.script = (_request, response) => answer(response, 503, '')
    start({ staleSeconds: 0 }) // Else a lookup that runs into its timeout may answer with what was good before.
    const digests = Array.from({ length: 300 }, (_, number) => digestNo(number))
    for (const digest of digests) await console_.write(digest, recordOf())
    await connects()
    for (const digest of digests) await knows(digest, 1)
    for (const [index, digest] of digests.entries()) {
      await console_.write(digest, REVOKED)
      await console_.announce(digest, 2)
      if (index % 50 === 0) await server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    }
    await knows(digests.at(-1) ?? '', 2)
    await connects()
    for (const digest of digests) expect(await versionOf(digest)).not.toBe(1)
    for (const digest of digests) await knows(digest, 2)
    expect(await reconnects()).toBeGreaterThan(0)
  })

  test('is replaced if its connection is open but no heartbeat arrives', async () => {
    start()
    await connects()
    console_.stopHeartbeats()
    clock.advance(2_001)
    await until('the connection is replaced', async () => (await reconnects()) === 1)
    expect(log.text).toContain('no valid heartbeat')
    console_.startHeartbeats()
    await connects()
    await until('it is logged', () => log.count('invalidation recovered') === 1)
  })
})

describe('a flood of messages without a valid MAC', () => {
  test('causes a bounded number of lookups, and evicts no record', async () => {
    start()
    await connects()
    const digests = Array.from({ length: 50 }, (_, number) => digestNo(number))
    for (const digest of digests) keyService.records.set(digest, recordOf())
    for (const digest of digests) await knows(digest, 1)
    const asked = () => keyService.requests.filter(({ path }) => path.includes('/keys/')).length
    const before = asked() + keyService.batches.flat().length
    for (let round = 0; round < 20; round++) {
      for (const digest of digests) {
        await console_.say(changeMessage({ digest, version: 9, atMs: clock.wallMs() }, OTHER_MESSAGE_KEY))
        await console_.say(changeMessage({ digest, version: 9, atMs: clock.wallMs() }, null))
      }
      await console_.say('{"digest":')
    }
    await until('the last one has arrived', async () => (await count('unreadable')) === 20)
    expect(await count('unverified')).toBe(2_000)
    for (const digest of digests) expect(await versionOf(digest)).toBe(1)
    // Each lookup goes to the key service once: Redis has none of the records. 20 are allowed at once, then 10 a second.
    const lookups = asked() + keyService.batches.flat().length - before
    expect(lookups).toBeGreaterThan(0)
    expect(lookups).toBeLessThanOrEqual(20)
    expect(running.health().changes).toBe('connected')
  })
})

describe('while signing secrets are rotated', () => {
  test('a gateway that has the new secret before the console signs with it stays connected', async () => {
    const config = keyStoreConfig({
      redisUrl: server.url,
      username: 'gateway',
      password: PASSWORD,
      ...PATIENT,
    })
    const [signing = ''] = config.keys.signingSecrets
    const other = Buffer.alloc(32, 8).toString('base64')
    startWith({ ...config, keys: { ...config.keys, signingSecrets: [other, signing] } })
    await connects()
    await until('heartbeats count', () => running.health().changes === 'connected')
    expect(await count('unverified')).toBe(0)
  })

  test('a running gateway reloads the list and accepts messages signed with a new secret', async () => {
    const config = keyStoreConfig({
      redisUrl: server.url,
      username: 'gateway',
      password: PASSWORD,
      ...PATIENT,
    })
    const other = Buffer.alloc(32, 8).toString('base64')
    const prepares: PrepareReload<typeof config>[] = []
    const old = { ...config, keys: { ...config.keys, signingSecrets: [other] } }
    startWith(old, prepare => void prepares.push(prepare))
    await until('heartbeats arrive', async () => (await count('unverified')) > 3)
    expect(running.health().changes).toBe('disconnected')
    for (const use of prepares.map(prepare => prepare(config))) use()
    await connects()
  })
})

describe('a Redis that freezes', () => {
  test('delays a new key by the command timeout, and known keys are verified at the key service within 2 s', async () => {
    // Long enough that Redis answers on a busy machine before it freezes: with this clock a circuit that opened stays open.
    start({ commandTimeoutMs: 2_000 })
    await console_.write(KEY, recordOf())
    await connects()
    await knows(KEY, 1)
    server.freeze()
    keyService.records.set(KEY, REVOKED)
    keyService.records.set(digestNo(2), recordOf())
    expect(await versionOf(digestNo(2))).toBe(1)
    expect(await versionOf(KEY)).toBe(1)
    clock.advance(2_000)
    expect(await versionOf(KEY)).toBe(2)
    server.thaw()
    await connects()
  })
})

describe('the use of keys', () => {
  test('is reported to the key service, at the latest when the gateway stops', async () => {
    start({ usageReportSeconds: 60 })
    running.recordUsage(usageRequest(), 200, false)
    await running.stop()
    expect(keyService.used).toEqual([{ key_1: clock.wallMs() }])
  })

  test('is not reported with usage.reportSeconds 0', async () => {
    start({ usageReportSeconds: 0 })
    running.recordUsage(usageRequest(), 200, false)
    await running.stop()
    expect(keyService.used).toEqual([])
  })
})

describe('a key service that sends no heartbeats', () => {
  test('counts as connected while the subscription is open', async () => {
    console_.stopHeartbeats()
    start({ heartbeats: false })
    await connects()
    await server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await until('the connection is lost', async () => (await reconnects()) > 0)
    await connects()
  })
})

describe('without Redis', () => {
  test('messages of the same process are received, and memory is trusted', async () => {
    startWith(keyStoreConfig({ keyServiceUrl: keyService.url, ...PATIENT }))
    keyService.records.set(KEY, recordOf())
    running.invalidations.subscribed()
    running.invalidations.receive(heartbeatMessage({ monotonicMs: 1, atMs: clock.wallMs() }))
    await versionOf(KEY)
    expect(await versionOf(KEY)).toBe(1)
    expect(keyService.requests).toHaveLength(1)
    keyService.records.set(KEY, REVOKED)
    running.invalidations.receive(changeMessage({ digest: KEY, version: 2, atMs: clock.wallMs() }))
    expect(await versionOf(KEY)).toBe(2)
    expect(running.health()).toEqual({ redis: 'off', changes: 'connected', keyService: 'on' })
  })

  test('and without messages it is disconnected, and verifies every key at the key service each second', async () => {
    startWith(keyStoreConfig({ keyServiceUrl: keyService.url, ...PATIENT }))
    keyService.records.set(KEY, recordOf())
    await versionOf(KEY)
    clock.advance(1_001)
    await versionOf(KEY)
    expect(keyService.requests).toHaveLength(2)
    expect(running.health()).toEqual({ redis: 'off', changes: 'disconnected', keyService: 'on' })
  })
})

test('no log line contains the password of Redis or the token of the key service', async () => {
  keyService.script = (_request, response) => response.destroy()
  start({ password: 'another-password' })
  expect(await versionOf(KEY)).toBe('unknown')
  await until('it is logged', () => log.text.includes('WRONGPASS'))
  expect(log.count('key service lookup failing')).toBe(1)
  expect(log.text).not.toMatch(new RegExp(`another-password|${KEY_SERVICE_TOKEN}|${KEY}`))
})

test('a stopped key store opens no connection', async () => {
  start()
  await connects()
  await running.stop()
  const clients = async () => String(await server.admin.call('CLIENT', 'LIST')).includes('user=gateway')
  await until('its connections are closed', async () => !(await clients()))
  // The server may have seen them end before this side did, and this side ends them one after the other.
  await until('the closed reader is noticed', () => running.health().redis === 'down')
  await until('the closed subscriber is noticed', () => running.health().changes === 'disconnected')
  expect(running.health()).toMatchObject({ redis: 'down', changes: 'disconnected' })
  expect(await versionOf(KEY)).toBe('unknown')
})

test('records and messages without a MAC are accepted only if keys are opaque and no signing secret is set', () => {
  const signingSecrets = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)].map(secret => secret.toString('base64'))
  expect(deriveVerifyingKeys({ format: 'opaque', signingSecrets: [] })).toEqual({
    records: null,
    messages: null,
  })
  for (const format of ['opaque', 'signed'] as const) {
    const { records, messages } = deriveVerifyingKeys({ format, signingSecrets })
    expect([records?.length, messages?.length]).toEqual([2, 2])
  }
  expect(deriveVerifyingKeys({ format: 'signed', signingSecrets: [] })).toEqual({ records: [], messages: [] })
})
