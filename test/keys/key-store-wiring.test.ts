import { hostname } from 'node:os'
import { json } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { neverReloads, type PrepareReload } from '../../src/config/reloadable.ts'
import { fingerprintSecret } from '../../src/domain/key/secret.ts'
import {
  createKeyStore,
  type KeyStoreSettings,
  type RunningKeyStore,
} from '../../src/keys/create-key-store.ts'
import { createMetrics, type Metrics } from '../../src/observability/metrics/metrics.ts'
import { digestNo, recordOf, SIGNING_SECRET } from '../support/key-records.ts'
import { type ConfigChanges, keyStoreConfig } from '../support/key-store-config.ts'
import { LogSpy } from '../support/log-spy.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { changeMessage } from '../support/messages.ts'
import { metricValue } from '../support/metric-value.ts'
import { answer, ScriptedKeyService } from '../support/scripted-key-service.ts'
import { until } from '../support/until.ts'
import { usageRequest } from '../support/usage-request.ts'

/** A key store whose only neighbour is a key service, which also receives its reports. */
const KEY = digestNo(1)
type Config = KeyStoreSettings['config']
type Confirmation = { gateway: { id: string; name: string; region?: string }; [field: string]: unknown }

let keyService: ScriptedKeyService
let confirmations: Confirmation[]
let respond: () => [status: number, body: string]
let clock: ManualClock
let metrics: Metrics
let log: LogSpy
let keys: RunningKeyStore
let reloads: PrepareReload<Config>[]
beforeEach(async () => {
  confirmations = []
  reloads = []
  respond = () => [200, '{}']
  clock = new ManualClock()
  keyService = await ScriptedKeyService.start()
  keyService.script = async (request, response) => {
    if (request.url?.endsWith('/confirmations') !== true) return keyService.byTheContract(request, response)
    // The report of the gateway, by the contract.
    confirmations.push((await json(request)) as Confirmation)
    answer(response, ...respond())
  }
})
afterEach(async () => {
  await keys.stop()
  await keyService.stop()
})

function create(
  changes: Partial<Config> = {},
  settings: ConfigChanges = { keyServiceUrl: keyService.url, keyServiceTimeoutMs: 30_000 },
  more: Partial<KeyStoreSettings> = {},
): RunningKeyStore {
  metrics = createMetrics()
  log = new LogSpy()
  const config = { ...keyStoreConfig(settings), ...changes }
  keys = createKeyStore({ config, metrics, logger: log, clock, onReload: neverReloads, ...more })
  return keys
}

const { keys: KEYS, keyService: SERVICE, redis: NO_HEARTBEATS } = keyStoreConfig({ heartbeats: false })
const lookUp = async (digest = KEY, from: string | null = null) =>
  (await keys.keyStore.get(digest, from)).kind

describe('a gateway without a key service and without Redis', () => {
  test('knows no key, and says that both are off', async () => {
    create({}, {})
    keys.recordUsage(usageRequest(), 200, false)
    expect(keys.health()).toEqual({ redis: 'off', changes: 'disconnected', keyService: 'off' })
    expect([keys.introduced, keys.secretsMatch(), await lookUp()]).toEqual([null, 'off', 'unknown'])
    keys.start()
    await keys.stop()
  })

  test('shows each kind of lookup from the start, also of stores that it does not have', async () => {
    create({}, {})
    const { values } = await metrics.lookups.get()
    expect(new Set(values.map(({ labels }) => labels['tier']))).toEqual(
      new Set(['memory', 'redis', 'key_service']),
    )
    expect(values.every(({ value }) => value === 0)).toBe(true)
    expect((await metrics.storeCircuitOpen.get()).values).toEqual([])
  })
})

describe('settings', () => {
  test('say for how long a record and an absence are trusted, and how long a record is of use if no store responds', async () => {
    const memory = { ttlSeconds: 20, absentTtlSeconds: 3, maxEntries: 10 }
    create({
      keys: { ...KEYS, memory, staleSeconds: 60 },
      redis: NO_HEARTBEATS,
    })
    keys.invalidations.subscribed()
    expect(keys.health().changes).toBe('connected')
    keyService.records.set(KEY, recordOf())
    const asked = async (afterMs: number) => {
      clock.advance(afterMs)
      const before = keyService.requests.length
      const kinds = [await lookUp(KEY), await lookUp(digestNo(2))]
      return [...kinds, keyService.requests.length - before]
    }
    expect(await asked(0)).toEqual(['found', 'absent', 2])
    expect(await asked(2_999)).toEqual(['found', 'absent', 0])
    expect(await asked(1)).toEqual(['found', 'absent', 1])
    expect(await asked(17_000)).toEqual(['found', 'absent', 2])
    keyService.script = (_request, response) => answer(response, 503, '')
    expect(await asked(60_000)).toEqual(['found', 'unknown', 2])
    expect(await asked(1)).toEqual(['unknown', 'unknown', 2])
  })

  test('say how many lookups of unknown keys without a MAC a client may cause', async () => {
    create({ keys: { ...KEYS, unsignedLookups: { perSecond: 10, perAddress: 2 } } })
    const kinds = []
    for (let number = 1; number <= 3; number++) kinds.push(await lookUp(digestNo(number), '192.0.2.1'))
    expect(kinds).toEqual(['absent', 'absent', 'limited'])
  })

  test('say how many records fit', async () => {
    create({ keys: { ...KEYS, memory: { ...KEYS.memory, maxEntries: 1 } } })
    expect(await metricValue(metrics.cacheCapacity)).toBe(1)
  })
})

describe('a key service that fails', () => {
  test('is skipped after some lookups, probed, and used again; health, metrics and log say so', async () => {
    create({
      keyService: {
        ...SERVICE,
        url: keyService.url,
        timeoutMs: 30_000,
        circuit: { failures: 2, openMs: 500 },
      },
    })
    const isOpen = () => metricValue(metrics.storeCircuitOpen, { tier: 'key_service' })
    expect([keys.health().keyService, await isOpen()]).toEqual(['on', 0])
    const { script } = keyService
    keyService.script = (_request, response) => response.destroy()
    for (let number = 1; number <= 2; number++) {
      await lookUp(digestNo(number))
      clock.advance(100)
    }
    expect([keys.health().keyService, await isOpen()]).toEqual(['down', 1])
    expect(log.count('key service lookup failing')).toBe(1)
    expect(await metricValue(metrics.lookups, { tier: 'key_service', result: 'error' })).toBe(2)
    keyService.script = script
    keys.start()
    clock.advance(500)
    await until('a probe closes the circuit', () => keys.health().keyService === 'on')
    await lookUp(digestNo(9))
    expect(log.count('key service lookup recovered')).toBe(1)
  })
})

describe('reports to the key service', () => {
  test('introduce the gateway, once it is connected, by its host, its process and its region', async () => {
    const counts: number[] = []
    create({ region: 'eu', redis: NO_HEARTBEATS }, undefined, { onGatewayCount: count => counts.push(count) })
    let isIntroduced = false
    void keys.introduced?.then(() => {
      isIntroduced = true
    })
    respond = () => [200, '{"gateways":7}']
    keys.start()
    await until('a report arrives', () => confirmations.length > 0)
    expect(confirmations[0]).toMatchObject({
      gateway: { id: expect.stringMatching(/^[0-9a-f-]{36}$/), name: hostname(), region: 'eu' },
      leaving: false,
    })
    await until('the response arrives', () => counts.length > 0)
    expect([counts[0], isIntroduced]).toEqual([7, false])
    keys.invalidations.subscribed()
    await until('the console knows that it is connected', () => isIntroduced)
  })

  test('name no region if the settings name none, and need no listener', async () => {
    create()
    respond = () => [200, '{"gateways":7}']
    keys.start()
    await until('a report arrives', () => confirmations.length > 0)
    expect(confirmations[0]?.gateway).not.toHaveProperty('region')
  })

  test('tell whether the gateway verifies the keys of this key service, also after a reload', async () => {
    const other = Buffer.alloc(32, 9)
    create({}, undefined, { onReload: prepare => reloads.push(prepare) })
    expect(keys.secretsMatch()).toBe('unknown')
    respond = () => [200, JSON.stringify({ signingSecrets: [fingerprintSecret(other)] })]
    keys.start()
    await until('it is compared', () => keys.secretsMatch() === 'mismatch')
    expect(await metricValue(metrics.signingSecretsMismatch)).toBe(1)
    const config = keyStoreConfig({ keyServiceUrl: keyService.url })
    const signingSecrets = [SIGNING_SECRET, other].map(secret => secret.toString('base64'))
    const applied = reloads.map(prepare => prepare({ ...config, keys: { ...config.keys, signingSecrets } }))
    for (const apply of applied) apply()
    clock.advance(5_000)
    await until('it is compared again', () => keys.secretsMatch() === 'match')
  })

  test('a reload empties memory if a signing secret is gone, and not if one is added', async () => {
    const config = keyStoreConfig({ keyServiceUrl: keyService.url })
    const reloadTo = (secrets: readonly Buffer[]) => {
      const signingSecrets = secrets.map(secret => secret.toString('base64'))
      const next = { ...config, keys: { ...config.keys, signingSecrets } }
      for (const apply of reloads.map(prepare => prepare(next))) apply()
    }
    create({}, undefined, { onReload: prepare => reloads.push(prepare) })
    await lookUp()
    expect(keys.keyStore.holds(KEY)).toBe(true)
    reloadTo([SIGNING_SECRET, Buffer.alloc(32, 9)])
    expect(keys.keyStore.holds(KEY)).toBe(true)
    reloadTo([Buffer.alloc(32, 9)])
    expect(keys.keyStore.holds(KEY)).toBe(false)
    await lookUp()
    reloadTo([Buffer.alloc(32, 9)])
    expect(keys.keyStore.holds(KEY)).toBe(true)
  })

  test('end with the outcome of the drain and the last usage', async () => {
    create({}, { keyServiceUrl: keyService.url, keyServiceTimeoutMs: 30_000, usageReportSeconds: 60 })
    keys.recordUsage(usageRequest(), 200, false)
    await keys.stop('timed_out')
    expect(confirmations).toMatchObject([{ leaving: true, drain: 'timed_out' }])
    expect(keyService.usageReports).toMatchObject([
      { gateway: expect.stringMatching(`^${hostname()}:[0-9a-f-]{36}$`), counts: [{ count: 1 }] },
    ])
    expect(await lookUp()).toBe('unknown')
  })

  test('confirm each change that was applied', async () => {
    create({ keys: { ...KEYS, format: 'opaque', signingSecrets: [] } })
    keys.start()
    keys.invalidations.receive(changeMessage({ digest: KEY, version: 2, atMs: clock.wallMs() }, null))
    await until('it is confirmed', () => confirmations.some(({ confirmed }) => String(confirmed) !== ''))
    expect(confirmations.at(-1)).toMatchObject({ confirmed: [{ digest: KEY, version: 2 }] })
    expect(keys.secretsMatch()).toBe('off')
  })
})
