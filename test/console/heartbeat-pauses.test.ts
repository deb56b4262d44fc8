import { expect, test } from 'vitest'
import { RoundTrip, startHeartbeats } from '../../src/console/announcing/heartbeats.ts'
import { REVOCATION_TIMING } from '../../src/domain/revocation-timing.ts'
import { LogSpy } from '../support/log-spy.ts'
import { ManualTimers } from '../support/manual-timers.ts'
import { messagesOf } from '../support/messages.ts'
import { ScriptedAnnouncer } from '../support/scripted-announcer.ts'
import { silentLogger } from '../support/silent-logger.ts'
import { NOW_MS } from '../support/stored-keys.ts'
import { settled } from '../support/until.ts'

const { heartbeatPeriodMs, maxPendingMs } = REVOCATION_TIMING
const PAUSED = 'heartbeats paused, gateways verify each key at the key service'

type Parts = Parameters<typeof startHeartbeats>[0]

/** A console whose outbox and database say what a test lets them say. */
function started(roundTrip: RoundTrip | null = null) {
  const timers = new ManualTimers()
  const announcer = new ScriptedAnnouncer()
  const log = new LogSpy()
  let [wallMs, monotonicMs] = [NOW_MS, 0]
  const clock = { wallMs: () => wallMs, monotonicMs: () => monotonicMs }
  const state = {
    pending: async (): Promise<{ oldestMs: number; newestMs: number } | null> => null,
    hasCaughtUp: true,
    drains: [] as string[],
    pass(ms: number) {
      wallMs += ms
      monotonicMs += ms
    },
  }
  const outbox = {
    verified: { mark: '', untilMs: Number.POSITIVE_INFINITY },
    hasCaughtUp: () => state.hasCaughtUp,
    requestDrainOfPending: ({ isLate }: { isLate: boolean }) =>
      void state.drains.push(isLate ? 'late' : 'pending'),
    requestDrainUnlessWaiting: () => void state.drains.push('behind'),
  }
  const logger = {
    ...silentLogger,
    info: (fields: object | string, message?: string) =>
      log.info(message === undefined ? {} : Object(fields), message ?? String(fields)),
    warn: (fields: object | string, message = '') => log.warn(Object(fields), message),
  }
  const stop = startHeartbeats({
    ...{ announcer, clock, timers, logger, roundTrip, messages: messagesOf(clock) },
    repository: { pendingSpan: () => state.pending() },
    // As far as heartbeats use it.
    outbox: outbox as unknown as Parts['outbox'],
  })
  const nextPeriod = async () => {
    timers.advance(heartbeatPeriodMs)
    await settled()
  }
  return { announcer, log, state, stop, nextPeriod, timers }
}

test.each<[string, (world: ReturnType<typeof started>) => void, string[]]>([
  ['not_connected', ({ announcer }) => announcer.set('down'), []],
  ['redis_failed', ({ announcer }) => announcer.set('failed'), []],
  [
    'not_confirmed',
    ({ announcer }) => {
      announcer.isConfirmed = false
    },
    [],
  ],
  [
    'not_confirmed',
    ({ announcer, state }) => {
      announcer.confirm = async () => {
        state.pass(maxPendingMs + 1)
        return true
      }
    },
    [],
  ],
  [
    'change_undelivered',
    ({ state }) => {
      state.pending = async () => ({ oldestMs: NOW_MS - maxPendingMs - 1, newestMs: NOW_MS })
    },
    ['late'],
  ],
  [
    'not_caught_up',
    ({ state }) => {
      state.hasCaughtUp = false
    },
    ['behind'],
  ],
  [
    'failed',
    ({ state }) => {
      state.pending = async () => Promise.reject(new Error('disk I/O error'))
    },
    [],
  ],
  [
    'failed',
    ({ announcer }) => {
      announcer.refusesPublishing = true
    },
    [],
  ],
])('no heartbeat is sent, and the log says once why: %s', async (reason, spoil, drains) => {
  const world = started()
  spoil(world)
  await world.nextPeriod()
  await world.nextPeriod()
  expect(world.announcer.published).toEqual([])
  const cause = reason === 'failed' ? { cause: expect.stringMatching(/disk I\/O error|NOPERM/) } : {}
  expect(world.log.lines).toEqual([{ level: 'warn', fields: { reason, ...cause }, message: PAUSED }])
  expect(world.state.drains).toEqual([...drains, ...drains])
  world.stop()
})

test('no heartbeat is sent on a connection that Redis has not answered yet, though the database was asked before', async () => {
  const { announcer, state, stop, nextPeriod } = started()
  state.pending = async () => {
    announcer.set('down')
    return null
  }
  await nextPeriod()
  expect(announcer.published).toEqual([])
  stop()
})

test('once the reason is gone, heartbeats go on, which the log says once', async () => {
  const { announcer, log, state, stop, nextPeriod, timers } = started()
  await nextPeriod()
  expect([announcer.published.length, log.lines]).toEqual([1, []])
  state.hasCaughtUp = false
  await nextPeriod()
  state.hasCaughtUp = true
  await nextPeriod()
  await nextPeriod()
  expect(announcer.published).toHaveLength(3)
  expect(log.lines.map(({ level, message }) => [level, message])).toEqual([
    ['warn', PAUSED],
    ['info', 'heartbeats resumed'],
  ])
  stop()
  expect(timers.nextDelayMs).toBeNull()
})

test('a change that is pending for as long as announcing may take stops no heartbeat', async () => {
  const { announcer, state, nextPeriod } = started()
  state.pending = async () => ({ oldestMs: NOW_MS - maxPendingMs, newestMs: NOW_MS })
  await nextPeriod()
  expect([announcer.published.length, state.drains]).toEqual([1, ['pending']])
})

test('without Redis in the settings nothing is sent, and nothing is wrong', async () => {
  const { announcer, log, nextPeriod } = started()
  announcer.set('off')
  await nextPeriod()
  expect([announcer.published, log.lines]).toEqual([[], []])
})

test('to a far region a change may be pending for two more round trips, and several heartbeats are on the way', async () => {
  const roundTrip = new RoundTrip()
  roundTrip.observe(150)
  const { announcer, state, nextPeriod } = started(roundTrip)
  const pendingFor = (ms: number) => {
    state.pending = async () => ({ oldestMs: NOW_MS - ms, newestMs: NOW_MS })
  }
  pendingFor(maxPendingMs + 300)
  await nextPeriod()
  expect(announcer.published).toHaveLength(1)
  pendingFor(maxPendingMs + 2_000)
  await nextPeriod()
  expect(announcer.published).toHaveLength(1)
  const far = new RoundTrip()
  far.observe(heartbeatPeriodMs)
  const stalled = started(far)
  const { promise, resolve } = Promise.withResolvers<void>()
  stalled.announcer.stalled = promise
  for (let count = 0; count < 5; count++) await stalled.nextPeriod()
  stalled.announcer.stalled = null
  resolve()
  await settled()
  expect(stalled.announcer.published).toHaveLength(3)
})

test('how far a region is, is the fastest of its last 16 heartbeats, and at most 600 ms', () => {
  const roundTrip = new RoundTrip()
  expect(roundTrip.ms).toBe(0)
  roundTrip.observe(700)
  expect(roundTrip.ms).toBe(600)
  roundTrip.observe(20)
  for (let count = 0; count < 15; count++) roundTrip.observe(50)
  expect(roundTrip.ms).toBe(20)
  roundTrip.observe(50)
  expect(roundTrip.ms).toBe(50)
})
