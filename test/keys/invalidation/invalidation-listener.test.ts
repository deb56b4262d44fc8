import { beforeEach, describe, expect, test } from 'vitest'
import { Changes } from '../../../src/keys/invalidation/invalidation-listener.ts'
import { createMetrics } from '../../../src/observability/metrics.ts'
import { digestNo } from '../../support/key-records.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { changeMessage, heartbeatMessage, MESSAGE_KEY, OTHER_MESSAGE_KEY } from '../../support/messages.ts'
import { metricValue } from '../../support/metric-value.ts'

const KEY = digestNo(1)
let clock: ManualClock
let metrics: ReturnType<typeof createMetrics>
let changes: Changes
let verifying: readonly (typeof MESSAGE_KEY)[] | null
/** What the sender's clocks are ahead of ours. */
let senderAheadMs: number

beforeEach(() => {
  clock = new ManualClock()
  metrics = createMetrics()
  verifying = [MESSAGE_KEY]
  senderAheadMs = 0
  changes = listenerOf({ beats: true })
})

function listenerOf({ beats }: { beats: boolean }): Changes {
  return new Changes({ clock, metrics, beats, messageKeys: () => verifying })
}

/** As the console sends it now, or sent it a while ago. */
function heartbeatOf(ageMs = 0, sender = 'console'): string {
  const monotonicMs = clock.monotonicMs() - ageMs
  return heartbeatMessage({ sender, monotonicMs, atMs: clock.wallMs() + senderAheadMs - ageMs })
}

/** @param ageMs how long it was on its way */
function beat(ageMs = 0): void {
  clock.advance(1) // No two are sent in one millisecond.
  changes.hear(heartbeatOf(ageMs))
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
    changes.hear(changeMessage({ digest: KEY, version: 2, atMs: clock.wallMs() }))
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
    const quiet = listenerOf({ beats: false })
    expect(quiet.isHearing()).toBe(false)
    quiet.subscribed()
    clock.advance(3_600_000)
    expect(quiet.isHearing()).toBe(true)
    quiet.lost()
    expect(quiet.isHearing()).toBe(false)
  })
})

describe('a late heartbeat', () => {
  test('is none: what was published after it may still be on its way', () => {
    changes.subscribed()
    beat()
    clock.advance(5_000)
    beat(1_001)
    expect(changes.isHearing()).toBe(false)
    beat(1_000)
    expect(changes.isHearing()).toBe(true)
  })

  test('stays late over a new subscription: subscribing again does not make a slow channel fast', () => {
    changes.subscribed()
    beat()
    clock.advance(3_000)
    changes.subscribed()
    beat(2_000)
    expect(changes.isHearing()).toBe(false)
  })

  test('is not judged by whose wall clock is ahead', () => {
    changes.subscribed()
    senderAheadMs = -3_600_000
    beat()
    expect(changes.isHearing()).toBe(true)
    clock.advance(1_500)
    beat(1_500)
    expect(changes.isHearing()).toBe(false)
  })

  test('of a key service that has only a wall clock is judged by that', () => {
    changes.subscribed()
    const send = (ageMs: number) =>
      changes.hear(heartbeatMessage({ monotonicMs: null, atMs: clock.wallMs() - ageMs }))
    send(0)
    expect(changes.isHearing()).toBe(true)
    clock.advance(1_500)
    send(1_400)
    expect(changes.isHearing()).toBe(false)
    send(300)
    expect(changes.isHearing()).toBe(true)
  })

  test('is not made by monotonic clocks that drift apart by a second in a day', () => {
    changes.subscribed()
    for (let minute = 0; minute < 3 * 24 * 60; minute++) {
      clock.advance(60_000)
      beat(Math.round(minute / 1.44))
      expect(changes.isHearing()).toBe(true)
    }
  })
})

describe('a wall clock that steps disconnects no gateway', () => {
  test.each([
    ['the console’s, back by two seconds', () => (senderAheadMs -= 2_000)],
    ['the console’s, back by an hour', () => (senderAheadMs -= 3_600_000)],
    ['the console’s, forward by an hour, and back again', () => (senderAheadMs += 3_600_000)],
    ['ours, forward by an hour', () => clock.stepWallClock(3_600_000)],
    ['ours, back by an hour', () => clock.stepWallClock(-3_600_000)],
  ])('%s', (_, step) => {
    changes.subscribed()
    beat()
    const before = epochNow()
    step()
    for (let second = 0; second < 10; second++) {
      clock.advance(900)
      beat()
      if (second === 5) senderAheadMs = 0
      expect(changes.isHearing()).toBe(true)
    }
    expect(epochNow()).toBe(before)
  })
})

describe('of several senders each has its own baseline', () => {
  test('two consoles whose clocks have nothing in common keep the gateway connected, together or alone', () => {
    changes.subscribed()
    const send = (sender: string, monotonicMs: number, atMs: number) =>
      changes.hear(heartbeatMessage({ sender, monotonicMs, atMs }))
    const before: number[] = []
    for (let beats = 0; beats < 100; beats++) {
      clock.advance(300)
      // The first runs for a year and is an hour behind; the second has just begun and is an hour ahead.
      if (beats < 70) send('old', 31_536_000_000 + clock.monotonicMs(), clock.wallMs() - 3_600_000)
      if (beats > 30) send('new', beats * 300, clock.wallMs() + 3_600_000)
      expect(changes.isHearing()).toBe(true)
      before.push(changes.epoch)
    }
    expect(new Set(before).size).toBe(1)
  })

  test('a sender that is late does not connect the gateway, however many others came and went', () => {
    changes.subscribed()
    beat()
    clock.advance(5_000)
    for (let sender = 0; sender < 63; sender++) changes.hear(heartbeatOf(0, `console-${sender}`))
    clock.advance(5_000)
    beat(2_000)
    expect(changes.isHearing()).toBe(false)
  })
})

describe('a heartbeat that was forged', () => {
  const forged: [string, () => string][] = [
    [
      'without a MAC',
      () => heartbeatMessage({ monotonicMs: clock.monotonicMs(), atMs: clock.wallMs() }, null),
    ],
    [
      'with the MAC of another secret',
      () => heartbeatMessage({ monotonicMs: clock.monotonicMs(), atMs: clock.wallMs() }, OTHER_MESSAGE_KEY),
    ],
    [
      'from the future',
      () => heartbeatMessage({ monotonicMs: clock.monotonicMs() + 9e9, atMs: clock.wallMs() + 9e9 }, null),
    ],
    ['from the past', () => heartbeatMessage({ monotonicMs: 1, atMs: 1 }, null)],
    ['without a sender', () => `{"beat":"","at":${clock.wallMs()}}`],
    ['with a change in it', () => JSON.stringify({ ...JSON.parse(heartbeatOf()), digest: KEY, version: 1 })],
  ]

  test.each(forged)('%s connects nothing', (_, forge) => {
    changes.subscribed()
    changes.hear(forge())
    expect(changes.isHearing()).toBe(false)
  })

  test.each(forged)('%s disconnects nothing, now or later', (_, forge) => {
    changes.subscribed()
    beat()
    const before = epochNow()
    for (let beats = 0; beats < 10; beats++) {
      changes.hear(forge())
      clock.advance(900)
      beat()
      expect(changes.isHearing()).toBe(true)
    }
    expect(epochNow()).toBe(before)
  })

  test('does not move the gauge of the clocks', async () => {
    changes.subscribed()
    beat()
    const before = await metricValue(metrics.clockSkew)
    for (const [, forge] of forged) changes.hear(forge())
    expect(await metricValue(metrics.clockSkew)).toBe(before)
  })
})

describe('a genuine heartbeat that is replayed', () => {
  test('does not keep the gateway connected, not even for the rest of its second', () => {
    changes.subscribed()
    clock.advance(1)
    const recorded = heartbeatOf()
    changes.hear(recorded)
    clock.advance(900)
    changes.hear(recorded)
    clock.advance(101)
    expect(changes.isHearing()).toBe(false)
    changes.hear(recorded)
    expect(changes.isHearing()).toBe(false)
  })

  test('disconnects nothing', () => {
    changes.subscribed()
    const recorded: string[] = []
    for (let beats = 0; beats < 20; beats++) {
      clock.advance(900)
      recorded.push(heartbeatOf())
      for (const text of recorded) changes.hear(text)
      expect(changes.isHearing()).toBe(true)
    }
  })

  test('from a console of the day before, to a gateway that never knew it, connects nothing', () => {
    const recorded = heartbeatOf()
    clock.advance(24 * 3_600_000)
    changes.subscribed()
    changes.hear(recorded)
    expect(changes.isHearing()).toBe(false)
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

  test('and not with text that is no message: anyone who may publish could end all trust in memory', async () => {
    changes.subscribed()
    beat()
    const before = epochNow()
    for (const text of ['', 'nonsense', '{}', '{"digest":"x","version":1,"at":1}', '[]', 'x'.repeat(1e6)]) {
      changes.hear(text)
    }
    expect(epochNow()).toBe(before)
    expect(await metricValue(metrics.invalidations, { result: 'unreadable' })).toBe(6)
  })

  test('and not with beats or changes that come as they should', () => {
    changes.subscribed()
    beat()
    const before = epochNow()
    for (let second = 0; second < 60; second++) {
      clock.advance(999)
      beat()
      changes.hear(changeMessage({ digest: KEY, version: second, atMs: clock.wallMs() }))
    }
    expect(epochNow()).toBe(before)
  })
})

describe('a change', () => {
  test('is told to whoever holds anything of the key, and the delay is measured', async () => {
    const told: string[] = []
    changes.onChange(digest => {
      told.push(digest)
      return 'evicted'
    })
    changes.subscribed()
    beat()
    changes.hear(changeMessage({ digest: KEY, version: 2, atMs: clock.wallMs() - 40 }))
    expect(told).toEqual([KEY])
    expect(await metricValue(metrics.invalidations, { result: 'evicted' })).toBe(1)
    expect(await lagSeconds()).toBe(0.04)
  })

  test('that was told late, after Redis was away, is no broken promise: while deaf it was asked for', async () => {
    changes.subscribed()
    changes.hear(changeMessage({ digest: KEY, version: 2, atMs: clock.wallMs() - 9_000 }))
    expect(await metricValue(metrics.invalidations, { result: 'unknown_key' })).toBe(1)
    expect(await lagSeconds()).toBe(0)
    beat()
    changes.hear(changeMessage({ digest: KEY, version: 3, atMs: clock.wallMs() - 9_000 }))
    expect(await lagSeconds()).toBe(9)
  })

  test('of a clock that is ahead is not one of a negative delay', async () => {
    changes.hear(changeMessage({ digest: KEY, version: 2, atMs: clock.wallMs() + 60_000 }))
    expect(await lagSeconds()).toBe(0)
  })

  test('is remembered at its highest version, whatever the order of messages', () => {
    changes.hear(changeMessage({ digest: KEY, version: 3, atMs: 1 }))
    changes.hear(changeMessage({ digest: KEY, version: 2, atMs: 1 }))
    expect(changes.announcedVersion(KEY)).toBe(3)
    expect(changes.announcedVersion(digestNo(2))).toBe(0)
  })
})

describe('a change without a good MAC', () => {
  const forged: [string, (version: number) => string][] = [
    ['none', version => changeMessage({ digest: KEY, version, atMs: clock.wallMs() }, null)],
    [
      'one of another secret',
      version => changeMessage({ digest: KEY, version, atMs: clock.wallMs() }, OTHER_MESSAGE_KEY),
    ],
    [
      'one of another version',
      version => {
        const genuine = JSON.parse(changeMessage({ digest: KEY, version: 2, atMs: clock.wallMs() })) as object
        return JSON.stringify({ ...genuine, version })
      },
    ],
  ]

  test.each(forged)(
    '(%s) sets no version floor, evicts nothing and is confirmed by nobody',
    async (_, forge) => {
      const called: string[] = []
      changes.onChange(() => {
        called.push('change')
        return 'evicted'
      })
      changes.onApplied(() => called.push('applied'))
      changes.hear(forge(9))
      expect(called).toEqual([])
      expect(changes.announcedVersion(KEY)).toBe(0)
      expect(await metricValue(metrics.invalidations, { result: 'unverified' })).toBe(1)
      expect(await lagSeconds()).toBe(0)
    },
  )

  test('has keys looked up again at a bounded rate; what exceeds it is dropped', async () => {
    let rechecks = 0
    changes.onRecheck(() => rechecks++)
    const flood = () => {
      for (let message = 0; message < 1_000; message++) changes.hear(forged[0]?.[1](message) ?? '')
    }
    flood()
    expect(rechecks).toBe(20)
    clock.advance(1_000)
    flood()
    expect(rechecks).toBe(30)
    clock.advance(3_600_000)
    flood()
    expect(rechecks).toBe(50)
    expect(await metricValue(metrics.invalidations, { result: 'unverified' })).toBe(3_000)
  })

  test('counts like any other where no signing secret is set', () => {
    verifying = null
    changes.hear(changeMessage({ digest: KEY, version: 9, atMs: clock.wallMs() }, null))
    expect(changes.announcedVersion(KEY)).toBe(9)
    changes.subscribed()
    changes.hear(heartbeatMessage({ monotonicMs: null, atMs: clock.wallMs() }, null))
    expect(changes.isHearing()).toBe(true)
  })

  test('is verified as soon as its signing secret is among the active ones', () => {
    const text = changeMessage({ digest: KEY, version: 9, atMs: clock.wallMs() }, OTHER_MESSAGE_KEY)
    changes.hear(text)
    expect(changes.announcedVersion(KEY)).toBe(0)
    verifying = [MESSAGE_KEY, OTHER_MESSAGE_KEY]
    changes.hear(text)
    expect(changes.announcedVersion(KEY)).toBe(9)
  })
})

describe('a genuine change that is replayed', () => {
  test('evicts nothing, is no lag, and at a bounded rate has its key looked up again', async () => {
    const evictions: number[] = []
    let rechecks = 0
    changes.onChange((_, version) => {
      evictions.push(version)
      return 'evicted'
    })
    changes.onRecheck(() => rechecks++)
    changes.subscribed()
    beat()
    const recorded = changeMessage({ digest: KEY, version: 2, atMs: clock.wallMs() })
    changes.hear(recorded)
    changes.hear(changeMessage({ digest: KEY, version: 3, atMs: clock.wallMs() }))
    const lagBefore = await lagSeconds()
    clock.advance(500)
    for (let time = 0; time < 1_000; time++) changes.hear(recorded)
    expect(evictions).toEqual([2, 3])
    expect(rechecks).toBe(20)
    expect(changes.announcedVersion(KEY)).toBe(3)
    expect(await lagSeconds()).toBe(lagBefore)
    expect(await metricValue(metrics.invalidations, { result: 'repeated' })).toBe(1_000)
  })

  test('is confirmed again: the console publishes what it is not sure of once more', () => {
    const applied: number[] = []
    changes.onApplied((_, version) => applied.push(version))
    for (let time = 0; time < 2; time++) changes.hear(changeMessage({ digest: KEY, version: 2, atMs: 1 }))
    expect(applied).toEqual([2, 2])
  })
})
