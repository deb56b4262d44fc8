import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { isAllAnnounced, startHeartbeats } from '../../src/console/announcing/heartbeats.ts'
import { Outbox } from '../../src/console/announcing/outbox.ts'
import { DatabaseUnavailable } from '../../src/console/platform/database/database-unavailable.ts'
import type { StoredKey } from '../../src/domain/key/key-record.ts'
import { ManualTimers } from '../support/manual-timers.ts'
import { messagesOf, readMessage } from '../support/messages.ts'
import { insert, openRepository, type Repository, replace } from '../support/repository.ts'
import { ScriptedAnnouncer } from '../support/scripted-announcer.ts'
import { silentLogger } from '../support/silent-logger.ts'
import { NOW_MS, revoked, someKey } from '../support/stored-keys.ts'
import { settled, until } from '../support/until.ts'

let repository: Repository
let announcer: ScriptedAnnouncer
let timers: ManualTimers
let nowMs: number
let outboxOf: (repository: Repository, announcer: ScriptedAnnouncer) => Outbox
let outbox: Outbox

beforeEach(async () => {
  nowMs = NOW_MS
  const clock = { wallMs: () => nowMs, monotonicMs: () => nowMs }
  repository = await openRepository('sqlite::memory:', clock)
  announcer = new ScriptedAnnouncer()
  timers = new ManualTimers()
  const parts = { clock, timers, logger: silentLogger, random: () => 0, messages: messagesOf(clock) }
  outboxOf = (repository, announcer) => new Outbox({ ...parts, repository, announcer })
  outbox = outboxOf(repository, announcer)
})
afterEach(async () => {
  await outbox.stop()
  await repository.close()
})

const messages = (kind: 'change' | 'heartbeat') =>
  announcer.published.map(readMessage).filter(message => message?.kind === kind)
const change = (key: { digest: string }, version: number, atMs = NOW_MS) => ({
  kind: 'change',
  sender: 'console-1',
  region: 'default',
  verified: true,
  digest: key.digest,
  version,
  atMs,
})

async function commitAndAnnounce(key: StoredKey): Promise<boolean> {
  const change = await insert(repository, key)
  if (change === null) throw new Error('The hint of the key is taken')
  return outbox.announce([key], [change])
}

const nothingPending = () =>
  until('nothing is pending', async () => (await repository.pendingSpan()) === null)

describe('a committed change', () => {
  test('is announced, record and message, and then leaves the outbox', async () => {
    const key = someKey()
    expect(await commitAndAnnounce(key)).toBe(true)
    expect(announcer.puts).toEqual([key])
    expect(messages('change')).toEqual([change(key, 1)])
    await nothingPending()
  })

  test('is reported as not announced while Redis is down, and announced once it is back', async () => {
    announcer.set('down')
    const key = someKey()
    expect(await commitAndAnnounce(key)).toBe(false)
    announcer.set('ready')
    await nothingPending()
    expect(messages('change')).toEqual([change(key, 1)])
  })

  test('stays in the outbox while the server that has it may have been replaced, for another console to announce', async () => {
    announcer.isConfirmed = false
    expect(await commitAndAnnounce(someKey())).toBe(true)
    await settled()
    expect(await repository.pendingSpan()).not.toBeNull()
    announcer.isConfirmed = true
    timers.advance(1_000)
    await nothingPending()
  })

  test('is not published before its record is written', async () => {
    announcer.refusesWrites = true
    const key = someKey()
    expect(await commitAndAnnounce(key)).toBe(false)
    expect(announcer.published).toEqual([])
  })

  test('is retried with growing delays of at most a second until it succeeds', async () => {
    announcer.refusesPublishing = true
    const key = someKey()
    await insert(repository, key)
    outbox.requestDrain()
    const pauses: number[] = []
    for (let attempt = 0; attempt < 7; attempt++) {
      const pause = await until('a retry is planned', () => timers.nextDelayMs)
      pauses.push(pause)
      timers.advance(pause)
    }
    expect(pauses).toEqual([50, 100, 200, 400, 500, 500, 500])
    const lastPause = await until('a retry is planned', () => timers.nextDelayMs)
    announcer.refusesPublishing = false
    timers.advance(lastPause)
    await nothingPending()
    expect(messages('change')).toEqual([change(key, 1)])
  })

  test('delays its response for at most a second if Redis stalls, and is announced later', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    announcer.stalled = promise
    const key = someKey()
    const change = await insert(repository, key)
    const announced = change !== null && outbox.announce([key], [change])
    timers.advance(1000)
    expect(await announced).toBe(false)
    resolve()
    await nothingPending()
  })

  test('is announced once, also if the outbox is emptied while its request announces it', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    announcer.stalled = promise
    const key = someKey()
    const announced = commitAndAnnounce(key)
    await until('it is committed', async () => (await repository.countPending()) === 1)
    outbox.requestDrain()
    for (let turns = 0; turns < 10; turns++) await settled()
    resolve()
    expect(await announced).toBe(true)
    await nothingPending()
    await outbox.stop()
    expect(messages('change')).toEqual([change(key, 1)])
  })

  test('is announced with all others of its key, in the order of versions', async () => {
    const key = someKey()
    await insert(repository, key)
    nowMs++
    await replace(repository, revoked(key))
    outbox.requestDrain()
    await nothingPending()
    expect(messages('change')).toEqual([change(key, 1), change(key, 2, NOW_MS + 1)])
    expect(announcer.puts).toEqual([revoked(key)])
  })

  test('of earlier is announced to a region that is added', async () => {
    const key = someKey()
    await commitAndAnnounce(key)
    await replace(repository, revoked(key))
    // Its version is the first: there is no earlier record of it.
    await commitAndAnnounce(someKey())
    await repository.registerRegions(['eu'])
    const added = new ScriptedAnnouncer()
    const ofAdded = outboxOf({ ...repository, ...repository.pendingIn('eu') }, added)
    ofAdded.requestDrain()
    await until('it is announced', () => added.puts.length > 0)
    await ofAdded.stop()
    expect(added.puts).toEqual([revoked(key)])
  })

  test('of each of hundreds of keys is announced once after an outage', async () => {
    announcer.set('down')
    const keys = Array.from({ length: 300 }, () => someKey())
    for (const key of keys) await insert(repository, key)
    announcer.set('ready')
    await nothingPending()
    const published = messages('change').map(message => (message?.kind === 'change' ? message.digest : ''))
    expect(published.toSorted()).toEqual(keys.map(key => key.digest).toSorted())
  })
})

describe('a write of which it is uncertain when Redis carries it out', () => {
  /** The database is in memory: what is not done within these turns is not begun. */
  const drained = async () => {
    for (let turn = 0; turn < 20; turn++) await settled()
  }
  /** Another console announces the change. */
  const announceElsewhere = async (change: Awaited<ReturnType<typeof insert>>) => {
    if (change === null) throw new Error('The change was not committed')
    await repository.deletePendingChanges([change])
  }

  test.each([
    [100, 'once'],
    [101, 'and the newer version, which it may have replaced'],
  ])('takes %i ms: the version is written %s', async (tookMs, _) => {
    const { promise, resolve } = Promise.withResolvers<void>()
    announcer.stalled = promise
    const key = someKey()
    const announcing = commitAndAnnounce(key)
    await until('it has begun', async () => (await repository.pendingSpan()) !== null)
    await settled()
    nowMs += tookMs
    await announceElsewhere(await replace(repository, revoked(key)))
    announcer.stalled = null
    resolve()
    expect(await announcing).toBe(true)
    const expected = tookMs > 100 ? [key, revoked(key)] : [key]
    await until('it is written', () => announcer.puts.length >= expected.length)
    await drained()
    expect(announcer.puts).toEqual(expected)
  })

  test('fails: it is repeated, although another console has announced the change', async () => {
    announcer.refusesWrites = true
    const key = someKey()
    const change = await insert(repository, key)
    if (change === null) throw new Error('The hint of the key is taken')
    expect(await outbox.announce([key], [change])).toBe(false)
    await announceElsewhere(change)
    announcer.refusesWrites = false
    timers.advance(await until('a retry is planned', () => timers.nextDelayMs))
    await until('it is written', () => announcer.puts.length > 0)
    await drained()
    expect(announcer.puts).toEqual([key])
  })

  test('fails, and then succeeds: it is not repeated once more', async () => {
    announcer.refusesWrites = true
    const key = someKey()
    expect(await commitAndAnnounce(key)).toBe(false)
    announcer.refusesWrites = false
    timers.advance(await until('a retry is planned', () => timers.nextDelayMs))
    await nothingPending()
    await drained()
    expect(announcer.puts).toEqual([key])
  })
})

describe('a call over the keys of a workspace that waits for their announcement', () => {
  test('announces what another console has committed', async () => {
    const key = someKey()
    await insert(repository, key)
    const isAnnounced = outbox.hasAnnounced(key.record.workspaceId, nowMs, 1_000)
    await nothingPending()
    timers.advance(1_000)
    expect(await isAnnounced).toBe(true)
    expect(announcer.puts).toEqual([key])
  })

  test('answers that they may be unannounced if the database fails: the keys are changed, and no error may deny it', async () => {
    expect(await outbox.hasAnnounced('ws_1', nowMs, 1_000)).toBe(true)
    repository.hasPendingUntil = () => Promise.reject(new DatabaseUnavailable('unreachable', 'broken'))
    expect(await outbox.hasAnnounced('ws_1', nowMs, 1_000)).toBe(false)
    const mistake = new Error('a statement of our own')
    repository.hasPendingUntil = () => Promise.reject(mistake)
    await expect(outbox.hasAnnounced('ws_1', nowMs, 1_000)).rejects.toBe(mistake)
  })
})

describe('a heartbeat', () => {
  const clock = { wallMs: () => NOW_MS + timers.nowMs, monotonicMs: () => timers.nowMs }
  let stop: () => void
  beforeEach(() => {
    const parts = { repository, announcer, outbox, clock, timers, logger: silentLogger }
    stop = startHeartbeats({ ...parts, messages: messagesOf(clock) })
  })
  afterEach(() => stop())

  /** Two heartbeat periods, in which every pending action has happened. */
  const letPass = async (ms: number) => {
    timers.advance(ms)
    for (let turn = 0; turn < 20; turn++) await new Promise(resolve => setImmediate(resolve))
  }

  test('is sent at least twice a second', async () => {
    for (let passed = 0; passed < 1000; passed += 100) await letPass(100)
    expect(messages('heartbeat').length).toBeGreaterThanOrEqual(2)
  })

  test('is not sent while a change is unannounced, although Redis, which rejects writes, would publish it', async () => {
    announcer.refusesWrites = true
    await insert(repository, someKey())
    for (let period = 0; period < 10; period++) await letPass(300)
    expect(announcer.published).toEqual([])
    announcer.refusesWrites = false
    for (let period = 0; period < 10; period++) await letPass(300)
    const kinds = announcer.published.map(text => readMessage(text)?.kind)
    expect(kinds.slice(0, 2)).toEqual(['change', 'heartbeat'])
  })

  test('is not sent while a change of another console is unannounced; this console announces it', async () => {
    await letPass(300)
    const key = someKey()
    await insert(repository, key)
    await letPass(300)
    await until('the change is published', () => messages('change').length === 1)
  })

  test('is skipped while disconnected, and not sent late', async () => {
    announcer.set('down')
    for (let period = 0; period < 10; period++) await letPass(300)
    announcer.set('ready')
    await letPass(0)
    expect(announcer.published).toEqual([])
    await letPass(300)
    expect(messages('heartbeat')).toHaveLength(1)
  })

  test('waits for the previous one, so that they do not queue before a stalled Redis', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    announcer.stalled = promise
    for (let period = 0; period < 10; period++) await letPass(300)
    announcer.stalled = null
    resolve()
    await letPass(0)
    expect(messages('heartbeat')).toHaveLength(1)
  })

  test('counts from before the database was asked: after a slow answer gateways see that it is late', async () => {
    const { promise, resolve } = Promise.withResolvers<null>()
    stop()
    const parts = { announcer, outbox, clock, timers, logger: silentLogger, messages: messagesOf(clock) }
    stop = startHeartbeats({ ...parts, repository: { ...repository, pendingSpan: () => promise } })
    await letPass(300)
    await letPass(900)
    resolve(null)
    await letPass(0)
    expect(messages('heartbeat')[0]).toMatchObject({ monotonicMs: 300, atMs: NOW_MS + 300 })
  })

  test('is not sent if the database cannot say whether a change is unannounced', async () => {
    const broken = { ...repository, pendingSpan: () => Promise.reject(new Error('disk I/O error')) }
    stop()
    const parts = { announcer, outbox, clock, timers, logger: silentLogger, messages: messagesOf(clock) }
    stop = startHeartbeats({ ...parts, repository: broken })
    await letPass(300)
    expect(announcer.published).toEqual([])
  })

  test.each([
    [null, true],
    [{ oldestMs: NOW_MS, newestMs: NOW_MS }, true],
    [{ oldestMs: NOW_MS - 250, newestMs: NOW_MS }, true],
    [{ oldestMs: NOW_MS - 251, newestMs: NOW_MS }, false],
    // A clock was set back: the age of this change is unknown.
    [{ oldestMs: NOW_MS, newestMs: NOW_MS + 60_000 }, false],
  ])('with %j pending is honest: %s', (pending, honest) => {
    expect(isAllAnnounced(pending, NOW_MS)).toBe(honest)
  })
})
