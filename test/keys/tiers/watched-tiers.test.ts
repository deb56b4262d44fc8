import { beforeEach, describe, expect, test } from 'vitest'
import { encodeRecord, MAX_RECORD_BYTES, recordKeyName } from '../../../src/domain/wire.ts'
import type { KeyTier, TierResult } from '../../../src/keys/tiers/key-store.ts'
import { RedisSkipped, RedisStore } from '../../../src/keys/tiers/redis-store.ts'
import { withObservation } from '../../../src/keys/tiers/resilience.ts'
import { FailureLog } from '../../../src/observability/failure-log.ts'
import { createMetrics, type Metrics } from '../../../src/observability/metrics/metrics.ts'
import { digestNo, grantOf, OTHER_RECORD_KEY, RECORD_KEY, recordOf } from '../../support/key-records.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { metricValue } from '../../support/metric-value.ts'

const KEY = digestNo(1)
const FAILED: TierResult = { kind: 'failed', error: new Error('down'), why: 'unreachable' }
const FOUND: TierResult = { kind: 'found', grant: grantOf() }

const observed = (get: KeyTier['get'], log = new LogSpy()): KeyTier =>
  withObservation({ name: 'redis', get }, metrics, new FailureLog('redis lookup', log, new ManualClock()))

let metrics: Metrics
beforeEach(() => {
  metrics = createMetrics()
})

test.each<[string, TierResult]>([
  ['hit', FOUND],
  ['negative', { kind: 'absent' }],
  ['miss', { kind: 'miss' }],
  ['unreadable', { kind: 'miss', unreadable: true }],
  ['error', FAILED],
])('a lookup is counted by its result: %s', async (result, found) => {
  const tier = observed(async () => found)
  expect([tier.name, await tier.get(KEY)]).toEqual(['redis', found])
  const { values } = await metrics.lookups.get()
  const counted = values.filter(({ value }) => value > 0).map(({ labels }) => labels)
  expect(counted).toEqual([{ tier: 'redis', result }])
})

test('a store that throws, against its contract, has failed for this key', async () => {
  const tier = observed(() => Promise.reject(new Error('bug')))
  expect(await tier.get(KEY)).toEqual({ kind: 'failed', error: new Error('bug'), why: 'unusable' })
  expect(await metricValue(metrics.lookups, { tier: 'redis', result: 'error' })).toBe(1)
})

test('the log says when lookups begin to fail, and when they succeed again', async () => {
  const log = new LogSpy()
  const results: TierResult[] = [FOUND, FAILED, FAILED, { kind: 'miss' }]
  const tier = observed(async () => results.shift() ?? FOUND, log)
  expect([tier.name, await tier.get(KEY)]).toEqual(['redis', FOUND])
  expect(log.lines).toEqual([])
  expect(await tier.get(KEY)).toBe(FAILED)
  await tier.get(KEY)
  await tier.get(KEY)
  expect(log.lines).toMatchObject([
    { level: 'warn', message: 'redis lookup failing', fields: { reason: 'down' } },
    { level: 'info', message: 'redis lookup recovered' },
  ])
})

describe('an entry of Redis', () => {
  const record = encodeRecord(recordOf({ version: 3 }), KEY, RECORD_KEY)
  const named = (name: string) => encodeRecord(recordOf({ name }), KEY, RECORD_KEY)
  const recordOfLength = (length: number) => named('x'.repeat(length - Buffer.byteLength(named(''))))
  const read = (text: string, recordKeys = [RECORD_KEY]) =>
    new RedisStore({ read: async () => Buffer.from(text) }, () => recordKeys).get(KEY)

  test('is read under the name of its key', async () => {
    const asked: string[] = []
    const read = async (key: string) => {
      asked.push(key)
      return Buffer.alloc(0)
    }
    const store = new RedisStore({ read }, () => null)
    expect([store.name, await store.get(KEY)]).toEqual(['redis', { kind: 'miss' }])
    expect(asked).toEqual([recordKeyName(KEY)])
  })

  test('is the record of the key if one of the signing secrets made its MAC', async () => {
    const found = { kind: 'found', grant: grantOf({ version: 3 }) }
    expect(await read(record)).toEqual(found)
    expect(await read(record, [OTHER_RECORD_KEY, RECORD_KEY])).toEqual(found)
  })

  test('is a miss, which the next store may have, if it cannot be read', async () => {
    const unreadable = { kind: 'miss', unreadable: true }
    expect(await read(record, [OTHER_RECORD_KEY])).toEqual(unreadable)
    expect(await read(encodeRecord(recordOf(), digestNo(2), RECORD_KEY))).toEqual(unreadable)
    expect(await read(recordOfLength(MAX_RECORD_BYTES + 1))).toEqual(unreadable)
    expect(await read('x')).toEqual(unreadable)
  })

  test('of the greatest length is read', async () => {
    expect(await read(recordOfLength(MAX_RECORD_BYTES))).toMatchObject({ kind: 'found' })
  })

  test.each([
    ['skipped', new RedisSkipped('reconnecting')],
    ['unreachable', new Error('closed')],
    ['unreachable', 'no error at all'],
  ])('that cannot be asked for is a failure: %s', async (why, thrown) => {
    const store = new RedisStore({ read: () => Promise.reject(thrown) }, () => null)
    expect(await store.get(KEY)).toEqual({ kind: 'failed', error: expect.any(Error), why })
  })
})
