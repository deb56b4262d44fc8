import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { DatabaseUnreachable, Refused } from '../../src/console/platform/database/database.ts'
import { openReadOnly, readDatabase, waitForDatabase } from '../../src/console/platform/open-database.ts'
import { LogSpy } from '../support/log-spy.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { ManualTimers } from '../support/manual-timers.ts'
import { openDatabase } from '../support/open-database.ts'
import { silentLogger } from '../support/silent-logger.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'
import { settled } from '../support/until.ts'

/** The start of a console whose database does what the test says. */
function startWaiting(open: () => ReturnType<typeof openDatabase>) {
  const [clock, timers, log] = [new ManualClock(), new ManualTimers(), new LogSpy()]
  let waits = 0
  const logger = {
    ...silentLogger,
    warn: (fields: object | string, text = '') => log.warn(Object(fields), text),
  }
  const opening = waitForDatabase(open, {
    ...{ clock, timers, logger },
    random: () => 1,
    onWaiting: () => {
      waits++
    },
  })
  /** Until the next attempt. */
  const next = async (passedMs: number) => {
    clock.advance(passedMs)
    const pauseMs = timers.nextDelayMs
    timers.advance(pauseMs ?? 0)
    await settled()
    return pauseMs
  }
  return { opening, log, next, waits: () => waits }
}

test('a console waits as long as its database does not answer, asks after longer pauses, and says so twice a minute', async () => {
  const database = await openDatabase('sqlite::memory:')
  onTestFinished(() => database.close())
  let isUp = false
  const { opening, log, next, waits } = startWaiting(async () => {
    if (!isUp) throw new DatabaseUnreachable('no answer')
    return database
  })
  await settled()
  expect(log.lines).toEqual([
    { level: 'warn', fields: { cause: 'no answer' }, message: 'waiting for the database' },
  ])
  const pauses = [await next(0), await next(0), await next(0), await next(0), await next(0)]
  expect(pauses).toEqual([100, 200, 400, 800, 1_000])
  await next(29_999)
  expect(log.lines).toHaveLength(1)
  await next(1)
  await next(1)
  expect([log.lines.length, waits()]).toEqual([2, 9])
  isUp = true
  await next(0)
  expect([await opening, waits()]).toEqual([database, 9])
})

test('a console does not wait where another attempt cannot succeed', async () => {
  const refusal = new Refused('database.url: wrong password')
  const { opening, log, waits } = startWaiting(() => Promise.reject(refusal))
  await expect(opening).rejects.toBe(refusal)
  expect([log.lines, waits()]).toEqual([[], 0])
})

test('what only reads a SQLite file writes nothing, beside a console that does', async () => {
  const url = `sqlite:${join(databaseDirectory(), 'a.db')}`
  const console = await openDatabase(url)
  onTestFinished(() => console.close())
  await console.writer.insertInto('workspace_plans').values({ workspace_id: 'ws_1', plan: 'free' }).execute()
  let ended = console.reader
  const plans = await readDatabase(url, async database => {
    ended = database
    await expect(sql`delete from workspace_plans`.execute(database)).rejects.toMatchObject({
      kind: 'read_only',
    })
    return database.selectFrom('workspace_plans').select('plan').execute()
  })
  expect(plans).toEqual([{ plan: 'free' }])
  await expect(sql`select 1`.execute(ended)).rejects.toThrow('destroyed')
})

test('a file that cannot be read is refused with what to do, and none is made in its place', async () => {
  const folder = databaseDirectory()
  const at = (name: string) => join(folder, name)
  writeFileSync(at('other.db'), 'no database'.repeat(1_000))
  writeFileSync(at('torn.db'), `SQLite format 3\0${'x'.repeat(1_000)}`)
  mkdirSync(at('folder'))
  const advice = 'Name the settings of the console with --config, or its database with POSTERN_DATABASE_URL'
  const refusals: readonly (readonly [url: string, text: string])[] = [
    [`sqlite:${at('gone.db')}`, `there is no SQLite file to read at ${at('gone.db')}`],
    ['sqlite::memory:', 'there is no SQLite file to read at :memory:'],
    [`sqlite:${at('other.db')}`, `the file ${at('other.db')} is not a SQLite database`],
    [`sqlite:${at('torn.db')}`, `the SQLite file ${at('torn.db')} cannot be read: file is not a database`],
    [`sqlite:${at('folder')}`, `the file ${at('folder')} cannot be read: EISDIR, it is a folder`],
  ]
  for (const [url, text] of refusals) {
    await expect(openReadOnly(url, { name: '<from>' })).rejects.toThrow(new Refused(`<from>: ${text}`))
  }
  await expect(openReadOnly(`sqlite:${at('gone.db')}`)).rejects.toThrow(
    new Refused(`database.url: there is no SQLite file to read at ${at('gone.db')}. ${advice}`),
  )
  expect(existsSync(at('gone.db'))).toBe(false)
  writeFileSync(at('empty.db'), '')
  expect(
    await readDatabase(`sqlite:${at('empty.db')}`, database => database.introspection.getTables()),
  ).toEqual([])
})
