import { EventEmitter } from 'node:events'
import { ReplyError } from 'ioredis'
import { beforeEach, describe, expect, test } from 'vitest'
import { classifyRedisError } from '../../../src/domain/redis-failure.ts'
import { CHANGES_CHANNEL } from '../../../src/domain/wire.ts'
import { InvalidationListener } from '../../../src/keys/invalidation/invalidation-listener.ts'
import { RedisSubscription } from '../../../src/keys/invalidation/redis-subscription.ts'
import { FailureLog } from '../../../src/observability/failure-log.ts'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import type { ServerConnection } from '../../../src/redis/redis-connection.ts'
import { digestNo } from '../../support/key-records.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { changeMessage, heartbeatMessage, MESSAGE_KEY } from '../../support/messages.ts'
import { settled } from '../../support/until.ts'

// ioredis exports the class without a type.
const REFUSED = Reflect.construct(ReplyError as never, ['NOPERM']) as Error

let clock: ManualClock
let log: LogSpy
let listener: InvalidationListener
let subscription: RedisSubscription
let connection: { client: EventEmitter; isReady: boolean }
let calls: string[]
let turns: (() => void)[]
let subscribe: () => Promise<void>
let sentMs: number

beforeEach(() => {
  clock = new ManualClock()
  log = new LogSpy()
  calls = []
  turns = []
  sentMs = 0
  subscribe = async () => {}
  const metrics = createMetrics()
  listener = new InvalidationListener({
    clock,
    metrics,
    needsHeartbeats: true,
    messageKeys: () => [MESSAGE_KEY],
  })
  const timers = {
    after: () => () => {},
    every: () => () => {},
    nextTurn: (run: () => void) => void turns.push(run),
  }
  subscription = new RedisSubscription({
    listener,
    clock,
    timers,
    failures: new FailureLog('invalidation', log, clock),
  })
  const client = Object.assign(new EventEmitter(), {
    subscribe: (channel: string) => {
      calls.push(`subscribe ${channel}`)
      return subscribe()
    },
  })
  const note = (call: string) => () => void calls.push(call)
  connection = Object.assign(
    { client, isReady: true },
    { answered: () => {}, refused: (error: Error) => classifyRedisError(error, true) },
    { reconnect: note('reconnect'), pauseReading: note('pause'), resumeReading: note('resume') },
  )
  // The subscription uses no other part of a connection.
  subscription.attach(connection as unknown as ServerConnection)
})

function receive(text: string): void {
  connection.client.emit('message', CHANGES_CHANNEL, text)
}

function heartbeat(): void {
  receive(heartbeatMessage({ monotonicMs: ++sentMs, atMs: clock.wallMs() }))
}

/** Lets so much time pass, as if `watch` were called a few times a second. @returns when it reconnected, ms from now */
async function reconnectsWithin(ms: number): Promise<number[]> {
  const at: number[] = []
  for (let passed = 250; passed <= ms; passed += 250) {
    clock.advance(250)
    const before = calls.length
    subscription.watch()
    if (calls.slice(before).includes('reconnect')) {
      at.push(passed)
      subscription.onReady()
      await settled()
    }
  }
  return at
}

describe('a subscription', () => {
  test('counts once Redis confirms it and a heartbeat arrives', async () => {
    subscription.onReady()
    heartbeat()
    expect(listener.isConnected()).toBe(false)
    await settled()
    expect(calls).toEqual([`subscribe ${CHANGES_CHANNEL}`])
    heartbeat()
    expect(listener.isConnected()).toBe(true)
  })

  test('does not count if its confirmation belongs to an earlier connection', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    subscribe = () => promise
    subscription.onReady()
    subscription.onLost()
    resolve()
    await settled()
    heartbeat()
    expect(listener.isConnected()).toBe(false)
  })

  test('does not count if its confirmation belongs to the connection before the last one', async () => {
    const replies: (() => void)[] = []
    subscribe = () => new Promise(resolve => replies.push(resolve))
    subscription.onReady()
    subscription.onLost()
    subscription.onReady()
    replies[0]?.()
    await settled()
    heartbeat()
    expect(listener.isConnected()).toBe(false)
    replies[1]?.()
    await settled()
    heartbeat()
    expect(listener.isConnected()).toBe(true)
  })

  test('that is replaced counts no longer, also while its last messages arrive', async () => {
    subscription.onReady()
    await settled()
    clock.advance(2_001)
    subscription.watch()
    expect(calls.at(-1)).toBe('reconnect')
    heartbeat()
    expect(listener.isConnected()).toBe(false)
  })

  test('that is repeated during a silence ends no lookup that waits for a slow key service: the epoch stays', async () => {
    subscription.onReady()
    await settled()
    subscription.watch()
    const { epoch } = listener
    clock.advance(1_001)
    subscription.watch()
    await settled()
    expect(calls).toHaveLength(2)
    expect(listener.isConnected()).toBe(false)
    expect(listener.epoch).toBe(epoch)
  })

  test('whose first reply got lost counts once a repeated one is confirmed', async () => {
    subscribe = () => Promise.reject(new Error('Command timed out'))
    subscription.onReady()
    await settled()
    subscribe = async () => {}
    clock.advance(1_001)
    subscription.watch()
    await settled()
    heartbeat()
    expect(listener.isConnected()).toBe(true)
  })

  test('that is lost ends the connection at once', async () => {
    subscription.onReady()
    await settled()
    heartbeat()
    subscription.onLost()
    expect(listener.isConnected()).toBe(false)
  })
})

describe('an open connection is replaced', () => {
  test('if no heartbeat arrives for 2 s, then after twice as long each time, up to 30 s', async () => {
    subscription.onReady()
    await settled()
    const at = await reconnectsWithin(130_000)
    expect(at.map((ms, index) => ms - (at[index - 1] ?? 0))).toEqual([
      2250, 4250, 8250, 16_250, 30_250, 30_250, 30_250,
    ])
    const line = { level: 'warn', fields: { reason: expect.stringContaining('no valid heartbeat arrives') } }
    // Once more each minute.
    expect(log.lines).toMatchObject([line, line])
  })

  test('again after 2 s, once it was connected between', async () => {
    subscription.onReady()
    await settled()
    await reconnectsWithin(7_000)
    heartbeat()
    subscription.watch()
    expect(log.count('invalidation recovered')).toBe(1)
    clock.advance(1_001)
    expect(await reconnectsWithin(1_000)).toEqual([1_000])
  })

  test('after 2 s if its subscription gets no reply, which is repeated once until then', async () => {
    subscribe = () => Promise.reject(new Error('Command timed out'))
    subscription.onReady()
    await settled()
    expect(await reconnectsWithin(2_250)).toEqual([2_250])
    const subscribed = `subscribe ${CHANGES_CHANNEL}`
    expect(calls).toEqual([subscribed, subscribed, 'reconnect', subscribed])
    expect(log.text).toContain('Command timed out')
  })

  test('only after 2 s if Redis refused the subscription: an ACL that forbids it would cause a loop', async () => {
    subscribe = () => Promise.reject(REFUSED)
    subscription.onReady()
    await settled()
    expect(await reconnectsWithin(2_000)).toEqual([])
    expect(log.count('invalidation failing')).toBe(1)
  })

  test('not while it is not open', async () => {
    connection.isReady = false
    expect(await reconnectsWithin(5_000)).toEqual([])
  })
})

describe('a burst of messages', () => {
  const change = (number: number) => changeMessage({ digest: digestNo(number), version: 2, atMs: 1 })

  test('is handled 250 at a time: the rest is read in the next turn', () => {
    for (let number = 0; number < 249; number++) receive(change(number))
    expect(calls).toEqual([])
    receive(change(249))
    expect(calls).toEqual(['pause'])
    receive(change(250))
    expect([calls, turns.length]).toEqual([['pause'], 1])
    turns[0]?.()
    expect(calls).toEqual(['pause', 'resume'])
  })

  test('that is smaller pauses nothing, in any number of turns', () => {
    for (let number = 0; number < 1_000; number++) {
      receive(change(number))
      if (number % 249 === 248) turns.pop()?.()
    }
    expect(calls).toEqual([])
  })
})
