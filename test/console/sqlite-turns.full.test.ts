import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { openDatabase } from '../support/open-database.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'
import { TurnMeter } from '../support/turn-meter.ts'

const STATEMENTS = 500
/** Takes about a millisecond. */
const STATEMENT = sql`with recursive n (i) as (select 1 union all select i + 1 from n where i < 3000) select count(*) from n`

test.each([
  ['reader', 'one after the other'],
  ['writer', 'in one transaction'],
] as const)('statements of the %s, %s, let others have their turn', async (kind, _how) => {
  const database = await openDatabase(`sqlite:${join(databaseDirectory(), 'a.db')}`)
  const meter = new TurnMeter()
  if (kind === 'reader')
    for (let left = STATEMENTS; left > 0; left--) await STATEMENT.execute(database.reader)
  else {
    await database.writer.transaction().execute(async tx => {
      for (let left = STATEMENTS; left > 0; left--) await STATEMENT.execute(tx)
    })
  }
  meter.stop()
  await database.close()
  expect(meter.turns).toBeGreaterThan(10)
  expect(meter.longestMs).toBeLessThan(50)
})

test('heartbeats go on during a long read: a statement of one connection waits for one turn of another', async () => {
  const database = await openDatabase(`sqlite:${join(databaseDirectory(), 'a.db')}`)
  let [isReading, heartbeats] = [true, 0]
  const sendHeartbeats = async () => {
    for (; isReading; heartbeats++) await sql`select 1`.execute(database.announcing)
  }
  const sending = sendHeartbeats()
  for (let left = STATEMENTS; left > 0; left--) await STATEMENT.execute(database.reader)
  isReading = false
  await sending
  await database.close()
  expect(heartbeats).toBeGreaterThan(10)
})
