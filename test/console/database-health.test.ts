import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import {
  DatabaseHealth,
  type DatabaseState,
  probeDatabase,
} from '../../src/console/platform/database/database-health.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { ManualTimers } from '../support/manual-timers.ts'
import { openDatabase } from '../support/open-database.ts'
import { settled } from '../support/until.ts'

/** Readiness of a console whose database answers when the test says so. */
function setUp() {
  const [clock, timers] = [new ManualClock(), new ManualTimers()]
  const probes: PromiseWithResolvers<'ok' | 'low_space'>[] = []
  const probe = () => {
    const answer = Promise.withResolvers<'ok' | 'low_space'>()
    probes.push(answer)
    return answer.promise
  }
  const health = new DatabaseHealth({ probe, clock, timers })
  const pass = (ms: number) => {
    clock.advance(ms)
    timers.advance(ms)
  }
  const answer = (how: DatabaseState) => {
    const last = probes.at(-1)
    if (how === 'failed') last?.reject(new Error('full'))
    else last?.resolve(how)
  }
  /** What is said once the database has answered. */
  const stateAfter = async (how: DatabaseState) => {
    const state = health.state()
    await settled()
    answer(how)
    return state
  }
  return { health, timers, pass, answer, stateAfter, asked: () => probes.length }
}

test('readiness asks the database once a second, however often it is asked itself', async () => {
  const { health, timers, pass, stateAfter, asked } = setUp()
  expect(await stateAfter('ok')).toBe('ok')
  for (const ms of [0, 500, 499]) {
    pass(ms)
    expect([await health.state(), asked()]).toEqual(['ok', 1])
  }
  pass(1)
  expect([await stateAfter('failed'), asked()]).toEqual(['failed', 2])
  pass(999)
  expect([await health.state(), asked()]).toEqual(['failed', 2])
  pass(1)
  expect([await stateAfter('low_space'), asked()]).toEqual(['low_space', 3])
  pass(1_000)
  expect([await stateAfter('ok'), asked()]).toEqual(['ok', 4])
  expect(timers.nextDelayMs).toBeNull()
})

test('until the database has answered for the first time, readiness says what the start of the console has shown', async () => {
  const { health, pass } = setUp()
  const first = health.state()
  pass(300)
  expect(await first).toBe('ok')
})

test('after an error of the database readiness asks it at once', async () => {
  const { health, stateAfter, asked } = setUp()
  await stateAfter('ok')
  health.doubt()
  expect([await stateAfter('failed'), asked()]).toEqual(['failed', 2])
})

test('while the database does not answer, readiness says what was known, and after two seconds that it failed', async () => {
  const { health, pass, answer, stateAfter, asked } = setUp()
  await stateAfter('ok')
  pass(1_000)
  const said: string[] = []
  const ask = () => health.state().then(state => void said.push(state))
  ask()
  pass(299)
  await settled()
  expect(said).toEqual([])
  pass(1)
  await settled()
  expect(said).toEqual(['ok'])
  pass(1_399)
  ask()
  pass(300)
  await settled()
  expect(said).toEqual(['ok', 'ok'])
  ask()
  pass(300)
  await settled()
  expect([said, asked()]).toEqual([['ok', 'ok', 'failed'], 2])
  answer('ok')
  await settled()
  expect([await health.state(), asked()]).toEqual(['ok', 2])
})

test('readiness says that the database failed at exactly two seconds', async () => {
  const { health, pass, stateAfter } = setUp()
  await stateAfter('ok')
  pass(1_000)
  void health.state()
  pass(1_700)
  const late = health.state()
  pass(300)
  expect(await late).toBe('failed')
})

test('readiness reads, and writes as much as a change, and leaves nothing behind', async () => {
  const database = await openDatabase('sqlite::memory:')
  onTestFinished(() => database.close())
  const context = { consoleId: 'console-1', clock: new ManualClock() }
  await sql`create table seen (id text, request text, length integer, at_ms integer)`.execute(database.writer)
  await sql`create trigger see after insert on idempotent_responses begin
    insert into seen values (new.id, new.request, length(new.outcome), new.at_ms); end`.execute(
    database.writer,
  )
  await probeDatabase(database, context)
  const { rows } = await sql`select * from seen`.execute(database.reader)
  const at_ms = context.clock.wallMs()
  expect(rows).toEqual([{ id: 'probe of console-1', request: '', length: 16_384, at_ms }])
  expect(await database.reader.selectFrom('idempotent_responses').selectAll().execute()).toEqual([])
  await sql`alter table outbox rename to elsewhere`.execute(database.writer)
  await expect(probeDatabase(database, context)).rejects.toThrow('outbox')
})
