import type { ServerResponse } from 'node:http'
import { expect, onTestFinished, test } from 'vitest'
import { neverReloads } from '../../src/config/reloadable.ts'
import { systemClock } from '../../src/domain/clock.ts'
import { encodeRecord } from '../../src/domain/wire.ts'
import { createKeyStore } from '../../src/keys/create-key-store.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { digestNo, recordOf } from '../support/key-records.ts'
import { keyStoreConfig } from '../support/key-store-config.ts'
import { LogSpy } from '../support/log-spy.ts'
import { answer, ScriptedKeyService } from '../support/scripted-key-service.ts'

const POISON = digestNo(666)
const GOOD = Array.from({ length: 20 }, (_, number) => digestNo(number))
const RECORD = encodeRecord(recordOf(), POISON, null)
const ROUNDS = 10

/** Forms in which a broken row of the key service may arrive. */
const ROWS: [what: string, answer: (response: ServerResponse) => void][] = [
  ['a fault', response => answer(response, 500, '{"code":"internal_error"}')],
  ['nulls', response => answer(response, 200, RECORD.replace('"ws_1"', 'null'))],
  ['another type', response => answer(response, 200, RECORD.replace(/"scopes":\[[^\]]*\]/, '"scopes":7'))],
  ['an unknown schema version', response => answer(response, 200, RECORD.replace('"v":1', '"v":9'))],
  [
    'an impossible date',
    response =>
      answer(response, 200, RECORD.replace(/"expiresAt":"[^"]*"/, '"expiresAt":"2026-02-31T00:00:00Z"')),
  ],
  ['a megabyte', response => answer(response, 200, `{"id":"${'x'.repeat(1_000_000)}"}`)],
  ['a truncated record', response => answer(response, 200, RECORD.slice(0, 40))],
]

test.each(ROWS)(
  'a key for which the key service returns %s is "unknown", and does not affect other keys',
  async (what, broken) => {
    const keyService = await ScriptedKeyService.start()
    keyService.script = (request, response) => {
      if (request.url?.endsWith(POISON) === true) broken(response)
      else keyService.byTheContract(request, response)
    }
    // With a TTL of 0 every request causes a lookup.
    const config = keyStoreConfig({
      keyServiceUrl: keyService.url,
      ttlSeconds: 0,
      staleSeconds: 0,
      keyServiceTimeoutMs: 5_000,
    })
    const keys = createKeyStore({
      config,
      metrics: createMetrics(),
      logger: new LogSpy(),
      clock: systemClock,
      onReload: neverReloads,
    })
    onTestFinished(async () => {
      await keys.stop()
      await keyService.stop()
    })
    for (const digest of GOOD) keyService.records.set(digest, recordOf())
    const poisoned: string[] = []
    const others: string[] = []
    for (let round = 0; round < ROUNDS; round++) {
      for (const digest of GOOD) {
        poisoned.push((await keys.keyStore.get(POISON)).kind)
        others.push((await keys.keyStore.get(digest)).kind)
      }
    }
    const failed = others.filter(kind => kind !== 'found').length
    process.stdout.write(
      `\nkey service poisoned by ${what}: ${others.length} lookups of other keys, ${failed} failed; ${poisoned.length} of the poisoned one, ${new Set(poisoned).size === 1 ? poisoned[0] : 'different results'}; requests to the key service ${keyService.requests.length}\n`,
    )
    expect(failed).toBe(0)
    expect(new Set(poisoned)).toEqual(new Set(['unknown']))
    expect(keys.health()).toMatchObject({ keyService: 'on' })
  },
)
