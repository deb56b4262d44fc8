import { randomBytes } from 'node:crypto'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Announcement } from '../../src/console/announcing/announcer.ts'
import { Outbox } from '../../src/console/announcing/outbox.ts'
import { createInEachRegion, isAnnounced } from '../../src/console/announcing/regions.ts'
import { revokeAllKeys, WaitAllowance } from '../../src/console/keys/bulk-change.ts'
import { createIds } from '../../src/console/platform/database/ids.ts'
import { toKeyRow } from '../../src/console/platform/database/key-row.ts'
import { ManualTimers } from '../support/manual-timers.ts'
import { messagesOf } from '../support/messages.ts'
import { openDatabase } from '../support/open-database.ts'
import { createRepository, surfacesOf } from '../support/repository.ts'
import { ScriptedAnnouncer } from '../support/scripted-announcer.ts'
import { silentLogger } from '../support/silent-logger.ts'
import { NOW_MS, someKey } from '../support/stored-keys.ts'
import { settled } from '../support/until.ts'

/** Four batches: the call may wait for four seconds. */
const KEYS = 400
const STEP_MS = 5
const caller = { actor: 'admin-token', address: '192.0.2.1', requestId: 'request-1' }

/** Writes the first keys at once, and each of the others some time after the one before. */
class SlowingAnnouncer extends ScriptedAnnouncer {
  readonly #timers: ManualTimers
  readonly #slow: { readonly after: number; readonly eachMs: number }
  #turn: Promise<void> = Promise.resolve()
  #count = 0

  constructor(timers: ManualTimers, slow: { readonly after: number; readonly eachMs: number }) {
    super()
    this.#timers = timers
    this.#slow = slow
  }

  override async put(announcement: Announcement): Promise<void> {
    if (++this.#count > this.#slow.after) {
      this.#turn = this.#turn.then(
        () => new Promise(resolve => void this.#timers.after(this.#slow.eachMs, resolve)),
      )
      await this.#turn
    }
    await super.put(announcement)
  }
}

async function revokeAll(announcerOf: (timers: ManualTimers) => ScriptedAnnouncer) {
  const timers = new ManualTimers()
  const clock = { wallMs: () => NOW_MS + Math.floor(timers.nowMs), monotonicMs: () => timers.nowMs }
  const database = await openDatabase('sqlite::memory:')
  const repository = createRepository(database, clock, 'console-1')
  onTestFinished(() => repository.close())
  const rows = Array.from({ length: KEYS }, () => toKeyRow(someKey(), NOW_MS))
  await database.writer.insertInto('keys').values(rows).execute()
  const announcer = announcerOf(timers)
  const parts = { repository, announcer, clock, timers, logger: silentLogger, random: () => 0 }
  const ofDefault = new Outbox({ ...parts, messages: messagesOf(clock) })
  const inEachRegion = createInEachRegion([{ name: 'default', outbox: ofDefault }])
  const registry: Parameters<typeof revokeAllKeys>[0] = {
    ...{ ...parts, ...surfacesOf(repository), inEachRegion },
    newAuditId: createIds('audit', randomBytes),
    createEvents: () => [],
    count: (_, run) => run(),
  }
  const startedAtMs = timers.nowMs
  let isAnswered = false
  const answer = revokeAllKeys(registry, 'ws_1', { caller, mustWait: false }).finally(() => {
    isAnswered = true
  })
  while (!isAnswered) {
    await settled()
    timers.advance(STEP_MS)
  }
  const { changed: revoked, announced } = await answer
  return { revoked, announced: isAnnounced(announced), tookMs: timers.nowMs - startedAtMs }
}

describe('revoking all keys of a workspace', () => {
  test('waits for a slow announcement with the time that quick batches left', async () => {
    // The last batch takes three seconds.
    const slow = { after: 300, eachMs: 30 }
    const { revoked, announced, tookMs } = await revokeAll(timers => new SlowingAnnouncer(timers, slow))
    expect([revoked, announced]).toEqual([KEYS, true])
    expect(tookMs).toBeGreaterThan(3000)
  })

  test('waits for a stalled announcement no longer than a second for each batch and one for the first', async () => {
    const slow = { after: 0, eachMs: 3_600_000 }
    const { revoked, announced, tookMs } = await revokeAll(timers => new SlowingAnnouncer(timers, slow))
    expect([revoked, announced]).toEqual([KEYS, false])
    expect(tookMs).toBeGreaterThan(4000)
    expect(tookMs).toBeLessThan(5500)
  })

  test('waits for nothing while Redis is down', async () => {
    const { revoked, announced, tookMs } = await revokeAll(() => {
      const announcer = new ScriptedAnnouncer()
      announcer.set('down')
      return announcer
    })
    expect([revoked, announced]).toEqual([KEYS, false])
    expect(tookMs).toBeLessThan(500)
  })
})

describe('the time that a call over many keys may wait', () => {
  const clock = { nowMs: 0, monotonicMs: () => clock.nowMs }

  test('is a second for each batch, 30 seconds in all', () => {
    const allowance = new WaitAllowance(clock)
    expect(allowance.leftMs).toBe(1000)
    for (let batch = 0; batch < 3; batch++) allowance.addBatch()
    expect(allowance.leftMs).toBe(3000)
    for (let batch = 0; batch < 400; batch++) allowance.addBatch()
    expect(allowance.leftMs).toBe(30_000)
  })

  test('loses what waits have taken, and no more', async () => {
    const allowance = new WaitAllowance(clock)
    for (let batch = 0; batch < 3; batch++) allowance.addBatch()
    const limits: number[] = []
    const waitFor = (tookMs: number) => async (maxMs: number) => {
      limits.push(maxMs)
      clock.nowMs += tookMs
    }
    await allowance.spend(waitFor(10), 1000)
    await allowance.spend(waitFor(990), 1000)
    await allowance.spend(waitFor(2100))
    expect(limits).toEqual([1000, 1000, 2000])
    expect(allowance.leftMs).toBe(0)
  })
})
