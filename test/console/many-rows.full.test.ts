import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { neverReloads } from '../../src/config/reloadable.ts'
import { openKeyRows } from '../../src/console/keys/index.ts'
import { createNearLimitsReader } from '../../src/console/usage/read-limits.ts'
import { openDatabase } from '../support/open-database.ts'
import { NOW_MS } from '../support/stored-keys.ts'
import { TurnMeter } from '../support/turn-meter.ts'

/** As in event-loop.full.test.ts. */
const LONGEST_TURN_MS = 50
const ATTEMPTS = 3
const ROWS = 120_000

async function open() {
  const database = await openDatabase('sqlite::memory:')
  onTestFinished(() => database.close())
  const clock = { wallMs: () => NOW_MS, monotonicMs: () => NOW_MS }
  return { database, rows: openKeyRows({ database, clock }) }
}

async function expectShort(work: () => Promise<unknown>): Promise<void> {
  const longestMs: number[] = []
  while (longestMs.every(ms => ms >= LONGEST_TURN_MS) && longestMs.length < ATTEMPTS) {
    const meter = new TurnMeter()
    await work()
    meter.stop()
    longestMs.push(meter.longestMs)
  }
  expect(Math.min(...longestMs), `of ${longestMs.join(', ')}`).toBeLessThan(LONGEST_TURN_MS)
}

test('a purge of responses to repeated requests does not read those that are kept', async () => {
  const { database, rows } = await open()
  const numbers = JSON.stringify(Array.from({ length: ROWS }, (_, at) => at))
  await sql`insert into idempotent_responses (id, request, outcome, at_ms)
    select lower(hex(randomblob(32))), 'r', printf('%.*c', 700, 'x'), ${NOW_MS} from json_each(${numbers})`.execute(
    database.writer,
  )
  await expectShort(() => rows.responses.purge())
})

test('a list of limits does not read the rows of windows that have ended', async () => {
  const { database } = await open()
  const numbers = JSON.stringify(Array.from({ length: ROWS }, (_, at) => at))
  const ended = sql.lit(NOW_MS - 1)
  await sql`insert into limit_uses select printf('%022d', value), 'ws_1', '', '', 'burst', 60, 100, '', 95, 95, ${ended}, ${ended}, 0, 0
    from json_each(${numbers})`.execute(database.writer)
  const policies = [{ name: 'burst', per: 'workspace' as const, requests: 100, windowSeconds: 60 }]
  const limits = createNearLimitsReader(database, {
    config: { limits: { replicas: 1, policies, plans: {} } },
    onReload: neverReloads,
    clock: { wallMs: () => NOW_MS },
  })
  await expectShort(() => limits.list({ workspaceIds: null, limit: 50, after: null }))
})
