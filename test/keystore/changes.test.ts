import { beforeEach, describe, expect, test } from 'vitest'
import { encodeBeat, encodeChange } from '../../src/domain/wire.ts'
import { Changes } from '../../src/keystore/changes.ts'
import { createMetrics } from '../../src/observability/metrics.ts'
import { digestNo } from '../support/key-records.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { metricValue } from '../support/metric-value.ts'

const KEY = digestNo(1)
let clock: ManualClock
let metrics: ReturnType<typeof createMetrics>
let changes: Changes

beforeEach(() => {
  clock = new ManualClock()
  metrics = createMetrics()
  changes = new Changes({ clock, metrics, beats: true })
})

function beat(skewMs = 0): void {
  changes.hear(encodeBeat({ sender: 'console', atMs: clock.wallMs() + skewMs }))
}

function epochNow(): number {
  changes.isHearing()
  return changes.epoch
}

async function lagSeconds(): Promise<number> {
  const text = await metrics.registry.metrics()
  return Number(/^postern_key_invalidation_lag_seconds_sum (\S+)$/m.exec(text)?.[1])
}

describe('hearing', () => {
  test('needs a subscription and a beat: neither alone proves that nothing is missed', () => {
    beat()
    expect(changes.isHearing()).toBe(false)
    changes.subscribed()
    expect(changes.isHearing()).toBe(false)
    beat()
    expect(changes.isHearing()).toBe(true)
  })

  test('lasts for a second after a beat', () => {
    changes.subscribed()
    beat()
    clock.advance(1_000)
    expect(changes.isHearing()).toBe(true)
    clock.advance(1)
    expect(changes.isHearing()).toBe(false)
  })

  test('is not kept up by changes: only a beat says that all of them were announced', () => {
    changes.subscribed()
    beat()
    clock.advance(1_001)
    changes.hear(encodeChange({ digest: KEY, version: 2, atMs: clock.wallMs() }))
    expect(changes.isHearing()).toBe(false)
  })

  test('ends with the subscription', () => {
    changes.subscribed()
    beat()
    changes.lost()
    expect(changes.isHearing()).toBe(false)
    beat()
    expect(changes.isHearing()).toBe(false)
  })

  test('is shown on a gauge', async () => {
    changes.subscribed()
    beat()
    expect(await metricValue(metrics.invalidationConnected)).toBe(1)
    clock.advance(2_000)
    changes.isHearing()
    expect(await metricValue(metrics.invalidationConnected)).toBe(0)
  })

  test('of a key service that sends no beats is its subscription', () => {
    const quiet = new Changes({ clock, metrics, beats: false })
    expect(quiet.isHearing()).toBe(false)
    quiet.subscribed()
    clock.advance(3_600_000)
    expect(quiet.isHearing()).toBe(true)
    quiet.lost()
    expect(quiet.isHearing()).toBe(false)
  })
})

describe('a late beat', () => {
  test('is none: what was announced after it is still on its way', () => {
    changes.subscribed()
    beat()
    clock.advance(5_000)
    beat(-1_001)
    expect(changes.isHearing()).toBe(false)
    beat(-1_000)
    expect(changes.isHearing()).toBe(true)
  })

  test('is not judged by whose clock is ahead, only by how the difference grows', () => {
    changes.subscribed()
    beat(-3_600_000)
    expect(changes.isHearing()).toBe(true)
    clock.advance(1_500)
    beat(-3_602_000)
    expect(changes.isHearing()).toBe(false)
  })

  test('stays late over a new subscription: a channel is not made punctual by asking it again', () => {
    changes.subscribed()
    beat()
    clock.advance(3_000)
    changes.subscribed()
    beat(-2_000)
    expect(changes.isHearing()).toBe(false)
  })

  test('because a clock was set is taken for one only for some minutes', () => {
    changes.subscribed()
    beat()
    clock.stepWallClock(10_000)
    for (let minute = 0; minute < 4; minute++) {
      clock.advance(60_000)
      beat(-10_000)
      expect(changes.isHearing()).toBe(false)
    }
    for (let minute = 0; minute < 8; minute++) {
      clock.advance(60_000)
      beat(-10_000)
    }
    expect(changes.isHearing()).toBe(true)
  })

  test('is not made by a clock that drifts by a second in a day', () => {
    changes.subscribed()
    for (let minute = 0; minute < 3 * 24 * 60; minute++) {
      clock.advance(60_000)
      beat(-Math.round(minute / 1.44))
      expect(changes.isHearing()).toBe(true)
    }
  })
})

describe('a new epoch, in which no memory of before is trusted, begins', () => {
  test('with each subscription, though the last one was never seen to break', () => {
    changes.subscribed()
    beat()
    const before = epochNow()
    changes.subscribed()
    beat()
    expect(epochNow()).toBeGreaterThan(before)
  })

  test('with going deaf, and with hearing again, even if nobody asked in between', () => {
    changes.subscribed()
    beat()
    const heard = epochNow()
    clock.advance(5_000)
    beat()
    expect(changes.isHearing()).toBe(true)
    expect(changes.epoch).toBe(heard + 2)
  })

  test('with a message that cannot be read: it may have been a change of any key', async () => {
    changes.subscribed()
    beat()
    const before = epochNow()
    for (const text of ['', 'nonsense', '{}', '{"digest":"x","version":1,"at":1}', '[]', 'x'.repeat(1e6)]) {
      changes.hear(text)
    }
    expect(epochNow()).toBe(before + 6)
    expect(await metricValue(metrics.invalidations, { result: 'unreadable' })).toBe(6)
  })

  test('and not with beats or changes that come as they should', () => {
    changes.subscribed()
    beat()
    const before = epochNow()
    for (let second = 0; second < 60; second++) {
      clock.advance(1_000)
      beat()
      changes.hear(encodeChange({ digest: KEY, version: second, atMs: clock.wallMs() }))
    }
    expect(epochNow()).toBe(before)
  })
})

describe('a change', () => {
  test('is told to whoever holds anything of the key, and the delay is measured', async () => {
    const told: string[] = []
    changes.onChange(digest => told.push(digest) > 0)
    changes.subscribed()
    beat()
    changes.hear(encodeChange({ digest: KEY, version: 2, atMs: clock.wallMs() - 40 }))
    expect(told).toEqual([KEY])
    expect(await metricValue(metrics.invalidations, { result: 'evicted' })).toBe(1)
    expect(await lagSeconds()).toBe(0.04)
  })

  test('that was told late, after Redis was away, is no broken promise: while deaf it was asked for', async () => {
    changes.subscribed()
    changes.hear(encodeChange({ digest: KEY, version: 2, atMs: clock.wallMs() - 9_000 }))
    expect(await metricValue(metrics.invalidations, { result: 'unknown_key' })).toBe(1)
    expect(await lagSeconds()).toBe(0)
    beat()
    changes.hear(encodeChange({ digest: KEY, version: 3, atMs: clock.wallMs() - 9_000 }))
    expect(await lagSeconds()).toBe(9)
  })

  test('of a clock that is ahead is not one of a negative delay', async () => {
    changes.hear(encodeChange({ digest: KEY, version: 2, atMs: clock.wallMs() + 60_000 }))
    expect(await lagSeconds()).toBe(0)
  })

  test('is remembered at its highest version, whatever the order of messages', () => {
    changes.hear(encodeChange({ digest: KEY, version: 3, atMs: 1 }))
    changes.hear(encodeChange({ digest: KEY, version: 2, atMs: 1 }))
    expect(changes.announcedVersion(KEY)).toBe(3)
    expect(changes.announcedVersion(digestNo(2))).toBe(0)
  })
})
