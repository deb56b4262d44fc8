import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { RoundTrip, startHeartbeats } from '../../src/console/announcing/heartbeats.ts'
import { Outbox } from '../../src/console/announcing/outbox.ts'
import { ManualTimers } from '../support/manual-timers.ts'
import { messagesOf, readMessage } from '../support/messages.ts'
import { insert, openRepository, type Repository } from '../support/repository.ts'
import { ScriptedAnnouncer } from '../support/scripted-announcer.ts'
import { silentLogger } from '../support/silent-logger.ts'
import { NOW_MS, someKey } from '../support/stored-keys.ts'
import { settled, until } from '../support/until.ts'

let timers: ManualTimers
let repository: Repository
let announcer: ScriptedAnnouncer
let roundTrip: RoundTrip
let outbox: Outbox
const clock = { wallMs: () => NOW_MS + timers.nowMs, monotonicMs: () => timers.nowMs }

beforeEach(async () => {
  timers = new ManualTimers()
  repository = await openRepository('sqlite::memory:', clock)
  onTestFinished(() => repository.close())
  announcer = new ScriptedAnnouncer()
  roundTrip = new RoundTrip()
  const parts = { repository, announcer, clock, timers, logger: silentLogger, random: () => 0, roundTrip }
  outbox = new Outbox({ ...parts, messages: messagesOf(clock) })
  onTestFinished(startHeartbeats({ ...parts, outbox, messages: messagesOf(clock) }))
})

const messages = () => announcer.published.map(text => readMessage(text)?.kind)

async function announceWithoutWriting() {
  announcer.refusesWrites = true
  const key = someKey()
  const change = await insert(repository, key)
  if (change === null) throw new Error('The hint of the key is taken')
  expect(await outbox.announce([key], [change])).toBe(false)
}

test('heartbeats to a far region go on while a change may be under way, and pause after two round trips', async () => {
  roundTrip.observe(150)
  await announceWithoutWriting()
  const sent = messages().length
  timers.advance(300)
  await until('a heartbeat is sent', () => messages().length === sent + 1)
  timers.advance(300)
  for (let turns = 0; turns < 20; turns++) await settled()
  expect(messages().slice(sent)).toEqual(['heartbeat'])
})

test.each([
  ['that a far region takes in a round trip is not late', 200, 0],
  ['that takes longer is late, and the outbox looks for a newer one', 300, 1],
])('a record of a lookup %s', async (_, tookMs, drains) => {
  roundTrip.observe(150)
  const claims = vi.spyOn(repository, 'claimChanges')
  const { promise, resolve } = Promise.withResolvers<void>()
  announcer.stalled = promise
  const written = outbox.write([{ key: someKey(), messages: [] }])
  timers.advance(tookMs)
  resolve()
  await written
  for (let turns = 0; turns < 20; turns++) await settled()
  expect(claims).toHaveBeenCalledTimes(drains)
})

test('the round trip is the fastest of the last heartbeats', () => {
  expect(roundTrip.ms).toBe(0)
  for (const ms of [300, 170, 900]) roundTrip.observe(ms)
  expect(roundTrip.ms).toBe(170)
  for (let late = 0; late < 16; late++) roundTrip.observe(5_000)
  expect(roundTrip.ms).toBe(600)
})
