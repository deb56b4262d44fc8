import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { startHeartbeats } from '../../src/console/announcing/heartbeats.ts'
import { Outbox } from '../../src/console/announcing/outbox.ts'
import type { AuditedDatabase } from '../../src/console/platform/audit/mac.ts'
import { ManualTimers } from '../support/manual-timers.ts'
import { messagesOf, readMessage } from '../support/messages.ts'
import { openDatabase } from '../support/open-database.ts'
import { createRepository, insert, type Repository, replace } from '../support/repository.ts'
import { ScriptedAnnouncer } from '../support/scripted-announcer.ts'
import { silentLogger } from '../support/silent-logger.ts'
import { NOW_MS, revoked, someKey } from '../support/stored-keys.ts'

const HOUR_MS = 3_600_000

/** A Redis, as its mark shows it. */
class Marked {
  text = ''
  read = async () => [this.text]
  write = async (text: string) => {
    this.text = text
    return true
  }
  get isComplete() {
    return /"untilMs":[0-9]/.test(this.text)
  }
}

describe('two consoles of one database', () => {
  let database: AuditedDatabase
  let repository: Repository
  const timers = new ManualTimers()
  const clock = { wallMs: () => NOW_MS + timers.nowMs, monotonicMs: () => timers.nowMs }
  const ends: (() => Promise<void> | void)[] = []

  beforeEach(async () => {
    database = await openDatabase('sqlite::memory:')
    repository = createRepository(database, clock, 'keys')
    await repository.registerRegions(['default'])
  })
  afterEach(async () => {
    for (const end of ends.splice(0)) await end()
    await repository.close()
  })

  const letPass = async (ms: number) => {
    timers.advance(ms)
    for (let turn = 0; turn < 40; turn++) await new Promise(resolve => setImmediate(resolve))
  }
  const letSecondsPass = async (seconds: number) => {
    for (let period = 0; period < seconds * 4; period++) await letPass(250)
  }

  function start(name: string, redis: Marked, changed: Partial<Repository> = {}, logger = silentLogger) {
    const announcer = new ScriptedAnnouncer()
    announcer.mark = redis
    const messages = messagesOf(clock, name)
    const own = { ...createRepository(database, clock, name), ...changed }
    const parts = { repository: own, announcer, messages, clock, timers, logger }
    const outbox = new Outbox({ ...parts, random: () => 0 })
    const stopHeartbeats = startHeartbeats({ ...parts, outbox })
    const keeping = timers.every(60_000, () => void outbox.keepMark())
    const stop = async () => {
      stopHeartbeats()
      keeping()
      await outbox.stop()
    }
    ends.push(stop)
    announcer.set('ready')
    const heartbeats = () =>
      announcer.published.filter(text => readMessage(text)?.kind === 'heartbeat').length
    return { announcer, outbox, heartbeats, stop }
  }

  async function revokeBy({ outbox }: { readonly outbox: Outbox }) {
    const key = someKey()
    const issued = await insert(repository, key)
    const change = await replace(repository, revoked(key))
    if (issued === null || change === null) throw new Error('The key was not stored')
    const announced = await outbox.announce([revoked(key)], [issued, change])
    return { digest: key.digest, announced }
  }
  const hasRevoked = ({ announcer }: { readonly announcer: ScriptedAnnouncer }, digest: string) =>
    announcer.puts.some(key => key.digest === digest && key.record.revokedAtMs !== null)

  test('that use the same Redis mark it once, however close they start', async () => {
    await insert(repository, someKey())
    const redis = new Marked()
    const both = [start('a', redis), start('b', redis)]
    await letSecondsPass(3)
    expect(redis.isComplete).toBe(true)
    const { text } = redis
    for (const { heartbeats } of both) expect(heartbeats()).toBeGreaterThan(0)
    await letSecondsPass(3)
    expect(JSON.parse(redis.text).mark).toBe(JSON.parse(text).mark)
  })

  test('one of which seemed to be silent go on with the same Redis under another mark, and no key is announced for that', async () => {
    await insert(repository, someKey())
    const redis = new Marked()
    const [a, b] = [start('a', redis), start('b', redis)]
    await letSecondsPass(6)
    const before = JSON.parse(redis.text)
    const ofB = b.heartbeats()
    a.announcer.otherIsSilent()
    await letSecondsPass(3)
    const after = JSON.parse(redis.text)
    expect(after.mark).not.toBe(before.mark)
    expect(after.mark).toBe((await repository.readMark()).mark)
    expect(after.untilMs).toBeGreaterThanOrEqual(before.untilMs)
    expect(b.heartbeats()).toBeGreaterThan(ofB + 3)
    expect(await repository.countPending()).toBe(0)
    await letSecondsPass(3)
    expect(JSON.parse(redis.text).mark).toBe(after.mark)
  })

  test('that both find a third one silent go on with the same Redis, and no log says that there is another one', async () => {
    await insert(repository, someKey())
    const redis = new Marked()
    const lines: string[] = []
    const note = (...given: unknown[]) => void lines.push(JSON.stringify(given))
    const logger = { ...silentLogger, info: note, warn: note, error: note }
    const both = [start('a', redis, {}, logger), start('b', redis, {}, logger)]
    await letSecondsPass(6)
    const before = both.map(({ heartbeats }) => heartbeats())
    lines.length = 0
    for (const { announcer } of both) announcer.otherIsSilent()
    await letSecondsPass(3)
    for (const [index, { heartbeats }] of both.entries()) {
      expect(heartbeats()).toBeGreaterThan((before[index] ?? 0) + 3)
    }
    expect(JSON.parse(redis.text).mark).toBe((await repository.readMark()).mark)
    expect(await repository.countPending()).toBe(0)
    expect(lines.filter(line => /another redis|all keys/i.test(line))).toEqual([])
    expect(lines.length).toBeGreaterThan(0)
  })

  test.each([
    ['and goes on with the same connection', false],
    ['and has a new connection then', true],
  ])('one of which got no answer of the database to a new mark, %s, go on with it', async (_, reconnects) => {
    await insert(repository, someKey())
    const redis = new Marked()
    const { renewMark } = repository
    let isLost = true
    const renewed: string[] = []
    const a = start('a', redis, {
      async renewMark(from, to) {
        const isRenewed = await renewMark(from, to)
        renewed.push(to)
        if (isLost) throw new Error('The answer is lost')
        return isRenewed
      },
    })
    const b = start('b', redis)
    await letSecondsPass(6)
    a.announcer.otherIsSilent()
    await letSecondsPass(2)
    isLost = false
    if (reconnects) a.announcer.set('ready')
    const before = [a.heartbeats(), b.heartbeats()]
    await letSecondsPass(4)
    expect(new Set(renewed).size).toBe(1)
    expect([JSON.parse(redis.text).mark, (await repository.readMark()).mark]).toEqual([
      renewed[0],
      renewed[0],
    ])
    expect([a.heartbeats(), b.heartbeats()].map((count, index) => count > (before[index] ?? 0) + 3)).toEqual([
      true,
      true,
    ])
  })

  test('one of which a proxy has led to another server with the same mark announces nothing once the other finds it silent', async () => {
    await insert(repository, someKey())
    const [redis, other] = [new Marked(), new Marked()]
    const a = start('a', redis)
    await letSecondsPass(3)
    other.text = redis.text
    const b = start('b', other)
    await letSecondsPass(3)
    expect(b.heartbeats()).toBeGreaterThan(0)
    a.announcer.otherIsSilent()
    await letSecondsPass(1)
    const [ofA, ofB] = [a.heartbeats(), b.heartbeats()]
    const { announced, digest } = await revokeBy(b)
    expect(announced).toBe(false)
    await letSecondsPass(3)
    expect(hasRevoked(a, digest)).toBe(true)
    expect(b.heartbeats()).toBe(ofB)
    expect(a.heartbeats()).toBeGreaterThan(ofA)
  })

  test('one of which got no answer of the database goes on at once with the mark that it made', async () => {
    const redis = new Marked()
    const { claimMark } = repository
    let isLost = true
    const a = start('a', redis, {
      async claimMark(...given) {
        const claimed = await claimMark(...given)
        if (isLost) throw new Error('The answer is lost')
        return claimed
      },
    })
    await letSecondsPass(1)
    expect(a.heartbeats()).toBe(0)
    isLost = false
    await letSecondsPass(2)
    expect(a.heartbeats()).toBeGreaterThan(0)
  })

  test('one of which Redis did not answer for a while goes on, though the connection is the same', async () => {
    await insert(repository, someKey())
    const redis = new Marked()
    const { promise, resolve } = Promise.withResolvers<void>()
    const write = redis.write
    redis.write = async () => {
      await promise
      throw new Error('Command timed out')
    }
    const a = start('a', redis)
    await letPass(0)
    const state = a.announcer.state
    a.announcer.state = () => 'down'
    resolve()
    redis.write = write
    await letSecondsPass(3)
    a.announcer.state = state
    await letSecondsPass(2)
    expect(a.heartbeats()).toBeGreaterThan(0)
  })

  test('that use different ones: a change that only one has stays pending until the other has it, too', async () => {
    const [old, next] = [new Marked(), new Marked()]
    const a = start('a', old)
    await letSecondsPass(2)
    const b = start('b', next)
    await letPass(0)
    expect(next.isComplete).toBe(true)
    // It does not know yet that another Redis is marked.
    const { digest } = await revokeBy(a)
    await letPass(0)
    expect(hasRevoked(a, digest)).toBe(true)
    await letSecondsPass(1)
    expect(hasRevoked(b, digest)).toBe(true)
  })

  test('that use different ones: what the earlier one announces once it knows of the later one stays pending', async () => {
    const [old, next] = [new Marked(), new Marked()]
    const a = start('a', old)
    await letSecondsPass(2)
    const key = someKey()
    await insert(repository, key)
    await replace(repository, revoked(key))
    const { promise, resolve } = Promise.withResolvers<void>()
    a.announcer.stalled = promise
    await letPass(300)
    const b = start('b', next)
    await letPass(300)
    a.announcer.stalled = null
    resolve()
    await letPass(0)
    expect(hasRevoked(a, key.digest)).toBe(true)
    await letSecondsPass(4)
    expect(hasRevoked(b, key.digest)).toBe(true)
  })

  test('one of which does not know its Redis yet answers no change as announced', async () => {
    const redis = new Marked()
    const { promise, resolve } = Promise.withResolvers<void>()
    const { read } = redis
    redis.read = async () => {
      await promise
      return await read()
    }
    const a = start('a', redis)
    const revoking = revokeBy(a)
    await letSecondsPass(2)
    const { digest, announced } = await revoking
    expect({ announced, isThere: hasRevoked(a, digest) }).toEqual({ announced: false, isThere: false })
    resolve()
    await letPass(0)
    expect(hasRevoked(a, digest)).toBe(true)
  })

  test('one whose Redis reconnects while its mark is about to be noted reads the mark that a snapshot has', async () => {
    const redis = new Marked()
    const { pendingSpan } = repository
    let beforeSpan = () => {}
    const a = start('a', redis, {
      async pendingSpan(...given) {
        beforeSpan()
        return await pendingSpan(...given)
      },
    })
    await letSecondsPass(2)
    const { digest } = await revokeBy(a)
    const snapshot = JSON.stringify({ mark: JSON.parse(redis.text).mark, untilMs: NOW_MS })
    await letPass(3 * HOUR_MS)
    await letSecondsPass(2)
    a.announcer.puts.length = 0
    let asked = 0
    // Those of a recovery: what is at risk, whether it is announced, and until when the mark says so.
    beforeSpan = () => {
      asked += 1
      if (asked !== 3) return
      redis.text = snapshot
      a.announcer.set('ready')
    }
    a.announcer.set('ready')
    await letSecondsPass(2)
    expect(asked).toBeGreaterThan(3)
    expect(hasRevoked(a, digest)).toBe(true)
  })

  test('one whose Redis goes back to a snapshot behind a connection that stays announces what that lacks', async () => {
    const redis = new Marked()
    const a = start('a', redis)
    await letSecondsPass(2)
    const snapshot = redis.text
    const { digest } = await revokeBy(a)
    for (let minute = 0; minute < 3; minute++) await letPass(60_000)
    a.announcer.puts.length = 0
    redis.text = snapshot
    await letPass(60_000)
    await letSecondsPass(2)
    expect(hasRevoked(a, digest)).toBe(true)
    a.announcer.puts.length = 0
    for (let minute = 0; minute < 3; minute++) await letPass(60_000)
    expect(a.announcer.puts).toEqual([])
  })

  test('one of whose cluster a node refuses writes does not take what that holds for a snapshot', async () => {
    const redis = new Marked()
    const { write } = redis
    const other = { text: '', refuses: false }
    redis.read = async () => [redis.text, other.text]
    redis.write = async text => {
      if (!other.refuses) other.text = text
      await write(text)
      return !other.refuses
    }
    const a = start('a', redis)
    await letSecondsPass(2)
    await revokeBy(a)
    for (let minute = 0; minute < 2; minute++) await letPass(60_000)
    a.announcer.puts.length = 0
    const kept = other.text
    other.refuses = true
    for (let minute = 0; minute < 6; minute++) await letPass(60_000)
    await letSecondsPass(2)
    expect({ puts: a.announcer.puts, isKept: other.text === kept }).toEqual({ puts: [], isKept: true })
  })

  test('one that stops while it puts the changes of all keys into the outbox does and says nothing more of it', async () => {
    await insert(repository, someKey())
    const requeued: number[] = []
    const a = start('a', new Marked(), {
      requeueNextKeys: async () => new Promise(resolve => setImmediate(resolve, true)),
      requeueChangesSince: async sinceMs => void requeued.push(sinceMs),
    })
    await letPass(0)
    const warn = vi.spyOn(silentLogger, 'warn')
    await a.stop()
    expect([requeued, warn.mock.calls]).toEqual([[], []])
    warn.mockRestore()
  })

  test('that use different ones: the later one announces, and the earlier one sends no heartbeats', async () => {
    const [old, next] = [new Marked(), new Marked()]
    const a = start('a', old)
    await letSecondsPass(2)
    expect(a.heartbeats()).toBeGreaterThan(0)
    const b = start('b', next)
    await letSecondsPass(2)
    const before = a.heartbeats()
    await letSecondsPass(5)
    expect(a.heartbeats()).toBe(before)
    expect(await revokeBy(a)).toMatchObject({ announced: false })
    expect(b.heartbeats()).toBeGreaterThan(0)
  })

  test('the earlier one announces again once the later one has ended for minutes, and its Redis lacks nothing', async () => {
    const [old, next] = [new Marked(), new Marked()]
    const a = start('a', old)
    await letSecondsPass(2)
    const b = start('b', next)
    await letSecondsPass(2)
    const { digest } = await revokeBy(b)
    await b.stop()
    await letSecondsPass(100)
    expect(hasRevoked(a, digest)).toBe(false)
    const before = a.heartbeats()
    a.announcer.refusesWrites = true
    await letSecondsPass(100)
    expect(old.isComplete).toBe(false)
    expect(a.heartbeats()).toBe(before)
    a.announcer.refusesWrites = false
    await letSecondsPass(10)
    expect(hasRevoked(a, digest)).toBe(true)
    expect(a.heartbeats()).toBeGreaterThan(before)
  })
})
