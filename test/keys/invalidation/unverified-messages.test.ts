import { beforeEach, describe, expect, test } from 'vitest'
import { InvalidationListener } from '../../../src/keys/invalidation/invalidation-listener.ts'
import { createMetrics, type Metrics } from '../../../src/observability/metrics/metrics.ts'
import { digestNo } from '../../support/key-records.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { changeMessage, heartbeatMessage, MESSAGE_KEY, OTHER_MESSAGE_KEY } from '../../support/messages.ts'
import { metricValue } from '../../support/metric-value.ts'

let clock: ManualClock
let metrics: Metrics
let listener: InvalidationListener
let rechecked: string[]
let applied: [string, number][]
beforeEach(() => {
  clock = new ManualClock()
  metrics = createMetrics()
  rechecked = []
  applied = []
  listener = new InvalidationListener({
    clock,
    metrics,
    needsHeartbeats: true,
    messageKeys: () => [MESSAGE_KEY],
  })
  listener.onRecheck(digest => rechecked.push(digest))
  listener.onApplied((digest, version) => applied.push([digest, version]))
})

const DIGEST = digestNo(1)
const change = (version: number, key: typeof MESSAGE_KEY | null = MESSAGE_KEY) =>
  changeMessage({ digest: DIGEST, version, atMs: clock.wallMs() }, key)
const count = (result: string) => metricValue(metrics.invalidations, { result })

describe.each([
  ['no MAC', null],
  ['the MAC of another secret', OTHER_MESSAGE_KEY],
])('a message with %s', (_, key) => {
  test('changes nothing by itself: the key is looked up again', async () => {
    listener.receive(change(9, key))
    expect(rechecked).toEqual([DIGEST])
    expect([listener.announcedVersion(DIGEST), applied]).toEqual([null, []])
    expect(await count('unverified')).toBe(1)
  })

  test('is no sign of life, and no reason for a lookup, if it is a heartbeat', async () => {
    listener.subscribed()
    listener.receive(heartbeatMessage({ monotonicMs: 1, atMs: clock.wallMs() }, key))
    expect([listener.isConnected(), rechecked]).toEqual([false, []])
    expect(await count('unverified')).toBe(1)
  })

  test('causes 20 lookups at once, and 10 a second after that, for all keys together', () => {
    for (let number = 0; number < 100; number++) listener.receive(change(9, key))
    expect(rechecked).toHaveLength(20)
    clock.advance(1_000)
    for (let number = 0; number < 100; number++) listener.receive(change(9, key))
    expect(rechecked).toHaveLength(30)
  })
})

describe('a repeated change', () => {
  test('is confirmed again, and looked up again, within the same budget', async () => {
    listener.receive(change(3))
    expect(rechecked).toEqual([])
    for (let number = 0; number < 100; number++) listener.receive(change(number % 2 === 0 ? 3 : 2))
    expect(rechecked).toHaveLength(20)
    expect(applied.slice(0, 3)).toEqual([
      [DIGEST, 3],
      [DIGEST, 3],
      [DIGEST, 2],
    ])
    expect(applied).toHaveLength(21)
    expect(await count('repeated')).toBe(100)
    expect(listener.announcedVersion(DIGEST)).toMatchObject({ version: 3 })
  })
})

test('an unreadable message is counted, and is no sign of life', async () => {
  listener.subscribed()
  listener.receive('{"digest":')
  expect(await count('unreadable')).toBe(1)
  expect(listener.isConnected()).toBe(false)
})

test('metrics say whether the gateway is connected, and how far the clock of the console is ahead', async () => {
  const connected = () => metricValue(metrics.invalidationConnected)
  expect((await metrics.invalidationConnected.get()).values).toHaveLength(1)
  expect(await connected()).toBe(0)
  listener.subscribed()
  listener.receive(heartbeatMessage({ monotonicMs: 1, atMs: clock.wallMs() - 2_000 }))
  expect([await connected(), await metricValue(metrics.clockSkew)]).toEqual([1, 2])
  listener.lost()
  expect(await connected()).toBe(0)
})

test('each epoch has a greater number than the one before', () => {
  const epochs = [listener.epoch]
  const note = () => epochs.push(listener.epoch)
  listener.subscribed()
  note()
  listener.receive(heartbeatMessage({ monotonicMs: 1, atMs: clock.wallMs() }))
  note()
  clock.advance(1_001)
  listener.isConnected()
  note()
  listener.receive(heartbeatMessage({ monotonicMs: 1_002, atMs: clock.wallMs() }))
  note()
  clock.advance(1_001)
  // The silence before this heartbeat is an epoch of its own.
  listener.receive(heartbeatMessage({ monotonicMs: 2_003, atMs: clock.wallMs() }))
  note()
  listener.lost()
  note()
  expect(epochs).toEqual(epochs.toSorted((a, b) => a - b))
  expect(new Set(epochs).size).toBe(epochs.length)
  expect((epochs.at(-2) ?? 0) - (epochs.at(-3) ?? 0)).toBe(2)
})
