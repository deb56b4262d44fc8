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
/** How far the sender's clocks are ahead of the gateway's, ms. */
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

/** A heartbeat of the console, sent now or earlier. */
function heartbeatOf(ageMs = 0, sender = 'console'): string {
  const monotonicMs = clock.monotonicMs() - ageMs
  return heartbeatMessage({ sender, monotonicMs, atMs: clock.wallMs() + senderAheadMs - ageMs })
}

/** @param ageMs transit time */
function sendHeartbeat(ageMs = 0): void {
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
  test('requires a subscription and a heartbeat', () => {
    sendHeartbeat()
    expect(listener.isConnected()).toBe(false)
    listener.subscribed()
    expect(listener.isConnected()).toBe(false)
    sendHeartbeat()
    expect(listener.isConnected()).toBe(true)
  })

  test('lasts for a second after a heartbeat', () => {
    listener.subscribed()
    sendHeartbeat()
    clock.advance(1_000)
    expect(listener.isConnected()).toBe(true)
    clock.advance(1)
    expect(listener.isConnected()).toBe(false)
  })

  test('is not extended by changes: only a heartbeat says that all changes were announced', () => {
    listener.subscribed()
    sendHeartbeat()
    clock.advance(1_001)
    listener.receive(changeMessage({ digest: KEY, version: 2, atMs: clock.wallMs() }))
    expect(listener.isConnected()).toBe(false)
  })

  test('ends with the subscription', () => {
    listener.subscribed()
    sendHeartbeat()
    listener.lost()
    expect(listener.isConnected()).toBe(false)
    sendHeartbeat()
    expect(listener.isConnected()).toBe(false)
  })

  test('is shown by a gauge', async () => {
    listener.subscribed()
    sendHeartbeat()
    expect(await metricValue(metrics.invalidationConnected)).toBe(1)
    clock.advance(2_000)
    listener.isConnected()
    expect(await metricValue(metrics.invalidationConnected)).toBe(0)
  })

  test('is shown at once, also while no request arrives', async () => {
    const quiet = listenerOf({ needsHeartbeats: false })
    quiet.subscribed()
    expect(await metricValue(metrics.invalidationConnected)).toBe(1)
    quiet.lost()
    expect(await metricValue(metrics.invalidationConnected)).toBe(0)
  })

  test('to a key service without heartbeats requires only the subscription', () => {
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
  test('does not count: later messages may still be in transit', () => {
    listener.subscribed()
    sendHeartbeat()
    clock.advance(5_000)
    sendHeartbeat(751)
    expect(listener.isConnected()).toBe(false)
    sendHeartbeat(750)
    expect(listener.isConnected()).toBe(true)
  })

  test('stays late after a new subscription, which does not make a slow channel fast', () => {
    listener.subscribed()
    sendHeartbeat()
    clock.advance(3_000)
    listener.subscribed()
    sendHeartbeat(2_000)
    expect(listener.isConnected()).toBe(false)
  })

  test('is not detected by wall clocks', () => {
    listener.subscribed()
    senderAheadMs = -3_600_000
    sendHeartbeat()
    expect(listener.isConnected()).toBe(true)
    clock.advance(1_500)
    sendHeartbeat(1_500)
    expect(listener.isConnected()).toBe(false)
  })

  test('of a key service with only a wall clock is detected by the wall clock', () => {
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

  test('is not caused by monotonic clocks that drift by a second a day', () => {
    listener.subscribed()
    for (let minute = 0; minute < 3 * 24 * 60; minute++) {
      clock.advance(60_000)
      sendHeartbeat(Math.round(minute / 1.44))
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
    sendHeartbeat()
    const before = epochNow()
    step()
    for (let second = 0; second < 10; second++) {
      clock.advance(900)
      sendHeartbeat()
      if (second === 5) senderAheadMs = 0
      expect(listener.isConnected()).toBe(true)
    }
    expect(epochNow()).toBe(before)
  })
})

describe('each sender has its own baseline', () => {
  test('two consoles with unrelated clocks keep the gateway connected, together or alone', () => {
    listener.subscribed()
    const send = (sender: string, monotonicMs: number, atMs: number) =>
      listener.receive(heartbeatMessage({ sender, monotonicMs, atMs }))
    const before: number[] = []
    for (let needsHeartbeats = 0; needsHeartbeats < 100; needsHeartbeats++) {
      clock.advance(300)
      // The first has run for a year and is an hour behind; the second has just started and is an hour ahead.
      if (needsHeartbeats < 70) send('old', 31_536_000_000 + clock.monotonicMs(), clock.wallMs() - 3_600_000)
      if (needsHeartbeats > 30) send('new', needsHeartbeats * 300, clock.wallMs() + 3_600_000)
      expect(listener.isConnected()).toBe(true)
      before.push(listener.epoch)
    }
    expect(new Set(before).size).toBe(1)
  })

  test('a late sender does not connect the gateway after any number of other senders', () => {
    listener.subscribed()
    sendHeartbeat()
    clock.advance(5_000)
    for (let sender = 0; sender < 63; sender++) listener.receive(heartbeatOf(0, `console-${sender}`))
    clock.advance(5_000)
    sendHeartbeat(2_000)
    expect(listener.isConnected()).toBe(false)
  })
})

describe('a forged heartbeat', () => {
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
    ['without a sender', () => `{"heartbeat":"","at":${clock.wallMs()}}`],
    ['with a change in it', () => JSON.stringify({ ...JSON.parse(heartbeatOf()), digest: KEY, version: 1 })],
  ]

  test.each(forged)('%s does not connect the gateway', (_, forge) => {
    listener.subscribed()
    listener.receive(forge())
    expect(listener.isConnected()).toBe(false)
  })

  test.each(forged)('%s does not disconnect the gateway, now or later', (_, forge) => {
    listener.subscribed()
    sendHeartbeat()
    const before = epochNow()
    for (let needsHeartbeats = 0; needsHeartbeats < 10; needsHeartbeats++) {
      listener.receive(forge())
      clock.advance(900)
      sendHeartbeat()
      expect(listener.isConnected()).toBe(true)
    }
    expect(epochNow()).toBe(before)
  })

  test('does not change the clock skew gauge', async () => {
    listener.subscribed()
    sendHeartbeat()
    const before = await metricValue(metrics.clockSkew)
    for (const [, forge] of forged) listener.receive(forge())
    expect(await metricValue(metrics.clockSkew)).toBe(before)
  })
})

describe('a genuine heartbeat that is replayed', () => {
  test('does not keep the gateway connected', () => {
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

  test('does not disconnect the gateway', () => {
    listener.subscribed()
    const recorded: string[] = []
    for (let needsHeartbeats = 0; needsHeartbeats < 20; needsHeartbeats++) {
      clock.advance(900)
      recorded.push(heartbeatOf())
      for (const text of recorded) listener.receive(text)
      expect(listener.isConnected()).toBe(true)
    }
  })

  test('a day later, from a console unknown to the gateway, does not connect it', () => {
    const recorded = heartbeatOf()
    clock.advance(24 * 3_600_000)
    listener.subscribed()
    listener.receive(recorded)
    expect(listener.isConnected()).toBe(false)
  })
})

describe('a new epoch, in which no earlier record is trusted, begins', () => {
  test('with each subscription, even without a lost connection', () => {
    listener.subscribed()
    sendHeartbeat()
    const before = epochNow()
    listener.subscribed()
    sendHeartbeat()
    expect(epochNow()).toBeGreaterThan(before)
  })

  test('with each disconnection and each connection, even without a check in between', () => {
    listener.subscribed()
    sendHeartbeat()
    const connected = epochNow()
    clock.advance(5_000)
    sendHeartbeat()
    expect(listener.isConnected()).toBe(true)
    expect(listener.epoch).toBe(connected + 2)
  })

  test('but not with an unreadable message, which every client with publish rights can send', async () => {
    listener.subscribed()
    sendHeartbeat()
    const before = epochNow()
    for (const text of ['', 'nonsense', '{}', '{"digest":"x","version":1,"at":1}', '[]', 'x'.repeat(1e6)]) {
      listener.receive(text)
    }
    expect(epochNow()).toBe(before)
    expect(await metricValue(metrics.invalidations, { result: 'unreadable' })).toBe(6)
  })

  test('but not with regular heartbeats or changes', () => {
    listener.subscribed()
    sendHeartbeat()
    const before = epochNow()
    for (let second = 0; second < 60; second++) {
      clock.advance(999)
      sendHeartbeat()
      listener.receive(changeMessage({ digest: KEY, version: second, atMs: clock.wallMs() }))
    }
    expect(epochNow()).toBe(before)
  })
})

describe('a change', () => {
  test('calls the listener for its key, and its lag is measured', async () => {
    const changed: string[] = []
    listener.onChange(digest => {
      changed.push(digest)
      return 'evicted'
    })
    listener.subscribed()
    sendHeartbeat()
    listener.receive(changeMessage({ digest: KEY, version: 2, atMs: clock.wallMs() - 40 }))
    expect(changed).toEqual([KEY])
    expect(await metricValue(metrics.invalidations, { result: 'evicted' })).toBe(1)
    expect(await lagSeconds()).toBe(0.04)
  })

  test('received while disconnected counts no lag: the gateway verified keys at the key service', async () => {
    listener.subscribed()
    listener.receive(changeMessage({ digest: KEY, version: 2, atMs: clock.wallMs() - 9_000 }))
    expect(await metricValue(metrics.invalidations, { result: 'unknown_key' })).toBe(1)
    expect(await lagSeconds()).toBe(0)
    sendHeartbeat()
    listener.receive(changeMessage({ digest: KEY, version: 3, atMs: clock.wallMs() - 9_000 }))
    expect(await lagSeconds()).toBe(9)
  })

  test('from a clock that is ahead has no negative lag', async () => {
    listener.receive(changeMessage({ digest: KEY, version: 2, atMs: clock.wallMs() + 60_000 }))
    expect(await lagSeconds()).toBe(0)
  })

  test('is remembered with its highest version, for every order of messages', () => {
    listener.receive(changeMessage({ digest: KEY, version: 3, atMs: 1 }))
    listener.receive(changeMessage({ digest: KEY, version: 2, atMs: 1 }))
    expect(listener.announcedVersion(KEY)?.version).toBe(3)
    expect(listener.announcedVersion(digestNo(2))).toBeNull()
  })
})

describe('a change without a valid MAC', () => {
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

  test.each(forged)('(%s) sets no version floor, evicts no record and is not confirmed', async (_, forge) => {
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
  })

  test('causes lookups at a bounded rate; excess messages are dropped', async () => {
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

  test('counts like any other if no signing secret is set', () => {
    verifying = null
    listener.receive(changeMessage({ digest: KEY, version: 9, atMs: clock.wallMs() }, null))
    expect(listener.announcedVersion(KEY)?.version).toBe(9)
    listener.subscribed()
    listener.receive(heartbeatMessage({ monotonicMs: null, atMs: clock.wallMs() }, null))
    expect(listener.isConnected()).toBe(true)
  })

  test('is verified as soon as its signing secret is active', () => {
    const text = changeMessage({ digest: KEY, version: 9, atMs: clock.wallMs() }, OTHER_MESSAGE_KEY)
    listener.receive(text)
    expect(listener.announcedVersion(KEY)).toBeNull()
    verifying = [MESSAGE_KEY, OTHER_MESSAGE_KEY]
    listener.receive(text)
    expect(listener.announcedVersion(KEY)?.version).toBe(9)
  })
})

describe('a genuine change that is replayed', () => {
  test('evicts no record, counts no lag, and causes lookups at a bounded rate', async () => {
    const evictions: number[] = []
    let rechecks = 0
    listener.onChange((_, version) => {
      evictions.push(version)
      return 'evicted'
    })
    listener.onRecheck(() => rechecks++)
    listener.subscribed()
    sendHeartbeat()
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

  test('is confirmed again: the console repeats changes that may not have been published', () => {
    const applied: number[] = []
    listener.onApplied((_, version) => applied.push(version))
    for (let time = 0; time < 2; time++) listener.receive(changeMessage({ digest: KEY, version: 2, atMs: 1 }))
    expect(applied).toEqual([2, 2])
  })
})
