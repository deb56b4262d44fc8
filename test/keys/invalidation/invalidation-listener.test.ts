import { beforeEach, describe, expect, test } from 'vitest'
import { InvalidationListener } from '../../../src/keys/invalidation/invalidation-listener.ts'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import { digestNo } from '../../support/key-records.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { changeMessage, heartbeatMessage, MESSAGE_KEY, OTHER_MESSAGE_KEY } from '../../support/messages.ts'
import { metricValue } from '../../support/metric-value.ts'

const KEY = digestNo(1)
let clock: ManualClock
let metrics: ReturnType<typeof createMetrics>
let listener: InvalidationListener
let verifying: readonly (typeof MESSAGE_KEY)[] | null
/** What the sender's clocks are ahead of ours. */
let senderAheadMs: number

beforeEach(() => {
  clock = new ManualClock()
  metrics = createMetrics()
  verifying = [MESSAGE_KEY]
  senderAheadMs = 0
  listener = listenerOf({ needsHeartbeats: true })
})

function listenerOf({ needsHeartbeats }: { needsHeartbeats: boolean }): InvalidationListener {
  return new InvalidationListener({ clock, metrics, needsHeartbeats, messageKeys: () => verifying })
}

/** As the console sends it now, or sent it a while ago. */
function heartbeatOf(ageMs = 0, sender = 'console'): string {
  const monotonicMs = clock.monotonicMs() - ageMs
  return heartbeatMessage({ sender, monotonicMs, atMs: clock.wallMs() + senderAheadMs - ageMs })
}

/** @param ageMs how long it was on its way */
function beat(ageMs = 0): void {
  clock.advance(1) // No two are sent in one millisecond.
  listener.receive(heartbeatOf(ageMs))
}

function epochNow(): number {
  listener.isConnected()
  return listener.epoch
}

async function lagSeconds(): Promise<number> {
  const text = await metrics.registry.metrics()
  return Number(/^postern_key_invalidation_lag_seconds_sum (\S+)$/m.exec(text)?.[1])
}

describe('the connection', () => {
  test('needs a subscription and a beat: neither alone proves that nothing is missed', () => {
    beat()
    expect(listener.isConnected()).toBe(false)
    listener.subscribed()
    expect(listener.isConnected()).toBe(false)
    beat()
    expect(listener.isConnected()).toBe(true)
  })

  test('lasts for a second after a beat', () => {
    listener.subscribed()
    beat()
    clock.advance(1_000)
    expect(listener.isConnected()).toBe(true)
    clock.advance(1)
    expect(listener.isConnected()).toBe(false)
  })

  test('is not kept up by changes: only a beat says that all of them were announced', () => {
    listener.subscribed()
    beat()
    clock.advance(1_001)
    listener.receive(changeMessage({ digest: KEY, version: 2, atMs: clock.wallMs() }))
    expect(listener.isConnected()).toBe(false)
  })

  test('ends with the subscription', () => {
    listener.subscribed()
    beat()
    listener.lost()
    expect(listener.isConnected()).toBe(false)
    beat()
    expect(listener.isConnected()).toBe(false)
  })

  test('is shown on a gauge', async () => {
    listener.subscribed()
    beat()
    expect(await metricValue(metrics.invalidationConnected)).toBe(1)
    clock.advance(2_000)
    listener.isConnected()
    expect(await metricValue(metrics.invalidationConnected)).toBe(0)
  })

  test('of a key service that sends no heartbeats is its subscription', () => {
    const quiet = listenerOf({ needsHeartbeats: false })
    expect(quiet.isConnected()).toBe(false)
    quiet.subscribed()
    clock.advance(3_600_000)
    expect(quiet.isConnected()).toBe(true)
    quiet.lost()
    expect(quiet.isConnected()).toBe(false)
  })
})

describe('a late heartbeat', () => {
  test('is none: what was published after it may still be on its way', () => {
    listener.subscribed()
    beat()
    clock.advance(5_000)
    beat(751)
    expect(listener.isConnected()).toBe(false)
    beat(750)
    expect(listener.isConnected()).toBe(true)
  })

  test('stays late over a new subscription: subscribing again does not make a slow channel fast', () => {
    listener.subscribed()
    beat()
    clock.advance(3_000)
    listener.subscribed()
    beat(2_000)
    expect(listener.isConnected()).toBe(false)
  })

  test('is not judged by whose wall clock is ahead', () => {
    listener.subscribed()
    senderAheadMs = -3_600_000
    beat()
    expect(listener.isConnected()).toBe(true)
    clock.advance(1_500)
    beat(1_500)
    expect(listener.isConnected()).toBe(false)
  })

  test('of a key service that has only a wall clock is judged by that', () => {
    listener.subscribed()
    const send = (ageMs: number) =>
      listener.receive(heartbeatMessage({ monotonicMs: null, atMs: clock.wallMs() - ageMs }))
    send(0)
    expect(listener.isConnected()).toBe(true)
    clock.advance(1_500)
    send(1_400)
    expect(listener.isConnected()).toBe(false)
    send(300)
    expect(listener.isConnected()).toBe(true)
  })

  test('is not made by monotonic clocks that drift apart by a second in a day', () => {
    listener.subscribed()
    for (let minute = 0; minute < 3 * 24 * 60; minute++) {
      clock.advance(60_000)
      beat(Math.round(minute / 1.44))
      expect(listener.isConnected()).toBe(true)
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
    listener.subscribed()
    beat()
    const before = epochNow()
    step()
    for (let second = 0; second < 10; second++) {
      clock.advance(900)
      beat()
      if (second === 5) senderAheadMs = 0
      expect(listener.isConnected()).toBe(true)
    }
    expect(epochNow()).toBe(before)
  })
})

describe('of several senders each has its own baseline', () => {
  test('two consoles whose clocks have nothing in common keep the gateway connected, together or alone', () => {
    listener.subscribed()
    const send = (sender: string, monotonicMs: number, atMs: number) =>
      listener.receive(heartbeatMessage({ sender, monotonicMs, atMs }))
    const before: number[] = []
    for (let needsHeartbeats = 0; needsHeartbeats < 100; needsHeartbeats++) {
      clock.advance(300)
      // The first runs for a year and is an hour behind; the second has just begun and is an hour ahead.
      if (needsHeartbeats < 70) send('old', 31_536_000_000 + clock.monotonicMs(), clock.wallMs() - 3_600_000)
      if (needsHeartbeats > 30) send('new', needsHeartbeats * 300, clock.wallMs() + 3_600_000)
      expect(listener.isConnected()).toBe(true)
      before.push(listener.epoch)
    }
    expect(new Set(before).size).toBe(1)
  })

  test('a sender that is late does not connect the gateway, however many others came and went', () => {
    listener.subscribed()
    beat()
    clock.advance(5_000)
    for (let sender = 0; sender < 63; sender++) listener.receive(heartbeatOf(0, `console-${sender}`))
    clock.advance(5_000)
    beat(2_000)
    expect(listener.isConnected()).toBe(false)
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
    listener.subscribed()
    listener.receive(forge())
    expect(listener.isConnected()).toBe(false)
  })

  test.each(forged)('%s disconnects nothing, now or later', (_, forge) => {
    listener.subscribed()
    beat()
    const before = epochNow()
    for (let needsHeartbeats = 0; needsHeartbeats < 10; needsHeartbeats++) {
      listener.receive(forge())
      clock.advance(900)
      beat()
      expect(listener.isConnected()).toBe(true)
    }
    expect(epochNow()).toBe(before)
  })

  test('does not move the gauge of the clocks', async () => {
    listener.subscribed()
    beat()
    const before = await metricValue(metrics.clockSkew)
    for (const [, forge] of forged) listener.receive(forge())
    expect(await metricValue(metrics.clockSkew)).toBe(before)
  })
})

describe('a genuine heartbeat that is replayed', () => {
  test('does not keep the gateway connected, not even for the rest of its second', () => {
    listener.subscribed()
    clock.advance(1)
    const recorded = heartbeatOf()
    listener.receive(recorded)
    clock.advance(900)
    listener.receive(recorded)
    clock.advance(101)
    expect(listener.isConnected()).toBe(false)
    listener.receive(recorded)
    expect(listener.isConnected()).toBe(false)
  })

  test('disconnects nothing', () => {
    listener.subscribed()
    const recorded: string[] = []
    for (let needsHeartbeats = 0; needsHeartbeats < 20; needsHeartbeats++) {
      clock.advance(900)
      recorded.push(heartbeatOf())
      for (const text of recorded) listener.receive(text)
      expect(listener.isConnected()).toBe(true)
    }
  })

  test('from a console of the day before, to a gateway that never knew it, connects nothing', () => {
    const recorded = heartbeatOf()
    clock.advance(24 * 3_600_000)
    listener.subscribed()
    listener.receive(recorded)
    expect(listener.isConnected()).toBe(false)
  })
})

describe('a new epoch, in which no memory of before is trusted, begins', () => {
  test('with each subscription, though the last one was never seen to break', () => {
    listener.subscribed()
    beat()
    const before = epochNow()
    listener.subscribed()
    beat()
    expect(epochNow()).toBeGreaterThan(before)
  })

  test('with each disconnection and each connection, even if nothing checked in between', () => {
    listener.subscribed()
    beat()
    const connected = epochNow()
    clock.advance(5_000)
    beat()
    expect(listener.isConnected()).toBe(true)
    expect(listener.epoch).toBe(connected + 2)
  })

  test('and not with text that is no message: anyone who may publish could end all trust in memory', async () => {
    listener.subscribed()
    beat()
    const before = epochNow()
    for (const text of ['', 'nonsense', '{}', '{"digest":"x","version":1,"at":1}', '[]', 'x'.repeat(1e6)]) {
      listener.receive(text)
    }
    expect(epochNow()).toBe(before)
    expect(await metricValue(metrics.invalidations, { result: 'unreadable' })).toBe(6)
  })

  test('and not with needsHeartbeats or changes that come as they should', () => {
    listener.subscribed()
    beat()
    const before = epochNow()
    for (let second = 0; second < 60; second++) {
      clock.advance(999)
      beat()
      listener.receive(changeMessage({ digest: KEY, version: second, atMs: clock.wallMs() }))
    }
    expect(epochNow()).toBe(before)
  })
})

describe('a change', () => {
  test('is told to whoever holds anything of the key, and the delay is measured', async () => {
    const told: string[] = []
    listener.onChange(digest => {
      told.push(digest)
      return 'evicted'
    })
    listener.subscribed()
    beat()
    listener.receive(changeMessage({ digest: KEY, version: 2, atMs: clock.wallMs() - 40 }))
    expect(told).toEqual([KEY])
    expect(await metricValue(metrics.invalidations, { result: 'evicted' })).toBe(1)
    expect(await lagSeconds()).toBe(0.04)
  })

  test('that was told late, after Redis was away, is no broken promise: while disconnected it was asked for', async () => {
    listener.subscribed()
    listener.receive(changeMessage({ digest: KEY, version: 2, atMs: clock.wallMs() - 9_000 }))
    expect(await metricValue(metrics.invalidations, { result: 'unknown_key' })).toBe(1)
    expect(await lagSeconds()).toBe(0)
    beat()
    listener.receive(changeMessage({ digest: KEY, version: 3, atMs: clock.wallMs() - 9_000 }))
    expect(await lagSeconds()).toBe(9)
  })

  test('of a clock that is ahead is not one of a negative delay', async () => {
    listener.receive(changeMessage({ digest: KEY, version: 2, atMs: clock.wallMs() + 60_000 }))
    expect(await lagSeconds()).toBe(0)
  })

  test('is remembered at its highest version, whatever the order of messages', () => {
    listener.receive(changeMessage({ digest: KEY, version: 3, atMs: 1 }))
    listener.receive(changeMessage({ digest: KEY, version: 2, atMs: 1 }))
    expect(listener.announcedVersion(KEY)?.version).toBe(3)
    expect(listener.announcedVersion(digestNo(2))).toBeNull()
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
      listener.onChange(() => {
        called.push('change')
        return 'evicted'
      })
      listener.onApplied(() => called.push('applied'))
      listener.receive(forge(9))
      expect(called).toEqual([])
      expect(listener.announcedVersion(KEY)).toBeNull()
      expect(await metricValue(metrics.invalidations, { result: 'unverified' })).toBe(1)
      expect(await lagSeconds()).toBe(0)
    },
  )

  test('has keys looked up again at a bounded rate; what exceeds it is dropped', async () => {
    let rechecks = 0
    listener.onRecheck(() => rechecks++)
    const flood = () => {
      for (let message = 0; message < 1_000; message++) listener.receive(forged[0]?.[1](message) ?? '')
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
    listener.receive(changeMessage({ digest: KEY, version: 9, atMs: clock.wallMs() }, null))
    expect(listener.announcedVersion(KEY)?.version).toBe(9)
    listener.subscribed()
    listener.receive(heartbeatMessage({ monotonicMs: null, atMs: clock.wallMs() }, null))
    expect(listener.isConnected()).toBe(true)
  })

  test('is verified as soon as its signing secret is among the active ones', () => {
    const text = changeMessage({ digest: KEY, version: 9, atMs: clock.wallMs() }, OTHER_MESSAGE_KEY)
    listener.receive(text)
    expect(listener.announcedVersion(KEY)).toBeNull()
    verifying = [MESSAGE_KEY, OTHER_MESSAGE_KEY]
    listener.receive(text)
    expect(listener.announcedVersion(KEY)?.version).toBe(9)
  })
})

describe('a genuine change that is replayed', () => {
  test('evicts nothing, is no lag, and at a bounded rate has its key looked up again', async () => {
    const evictions: number[] = []
    let rechecks = 0
    listener.onChange((_, version) => {
      evictions.push(version)
      return 'evicted'
    })
    listener.onRecheck(() => rechecks++)
    listener.subscribed()
    beat()
    const recorded = changeMessage({ digest: KEY, version: 2, atMs: clock.wallMs() })
    listener.receive(recorded)
    listener.receive(changeMessage({ digest: KEY, version: 3, atMs: clock.wallMs() }))
    const lagBefore = await lagSeconds()
    clock.advance(500)
    for (let time = 0; time < 1_000; time++) listener.receive(recorded)
    expect(evictions).toEqual([2, 3])
    expect(rechecks).toBe(20)
    expect(listener.announcedVersion(KEY)?.version).toBe(3)
    expect(await lagSeconds()).toBe(lagBefore)
    expect(await metricValue(metrics.invalidations, { result: 'repeated' })).toBe(1_000)
  })

  test('is confirmed again: the console publishes what it is not sure of once more', () => {
    const applied: number[] = []
    listener.onApplied((_, version) => applied.push(version))
    for (let time = 0; time < 2; time++) listener.receive(changeMessage({ digest: KEY, version: 2, atMs: 1 }))
    expect(applied).toEqual([2, 2])
  })
})
