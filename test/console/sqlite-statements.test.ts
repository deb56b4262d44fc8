import { DatabaseSync } from 'node:sqlite'
import { Kysely, sql } from 'kysely'
import { expect, onTestFinished, test, vi } from 'vitest'
import { DatabaseUnavailable } from '../../src/console/platform/database/database-unavailable.ts'
import { NodeSqliteDialect } from '../../src/console/platform/database/sqlite/dialect.ts'

interface Numbers {
  readonly numbers: { readonly n: number; readonly text: string | null }
}

/** @param failures what statements meet, first to last, before they run */
function open(failures: { next?: (text: string) => object | null } = {}) {
  const raw = new DatabaseSync(':memory:')
  raw.exec('create table numbers (n integer unique, text)')
  const prepare = raw.prepare.bind(raw)
  raw.prepare = text => {
    const failure = failures.next?.(text) ?? null
    if (failure !== null) throw Object.assign(new Error('said'), failure)
    return prepare(text)
  }
  const reported: string[] = []
  const database = new Kysely<Numbers>({
    dialect: new NodeSqliteDialect(raw, kind => void reported.push(kind)),
  })
  onTestFinished(() => database.destroy())
  return { raw, database, reported }
}

const rowsOf = async (database: Kysely<Numbers>) => (await sql`select * from numbers`.execute(database)).rows

test.each([
  // https://www.sqlite.org/rescode.html, with extended codes.
  [3, 'refused'],
  [7, 'full'],
  [8, 'read_only'],
  [1032, 'read_only'],
  [10, 'damaged'],
  [778, 'damaged'],
  [11, 'damaged'],
  [13, 'full'],
  [14, 'damaged'],
  [22, 'full'],
  [23, 'refused'],
  [26, 'damaged'],
])('an error of SQLite with the code %d says of the database: %s, once each time', async (errcode, kind) => {
  const { database, reported } = open({ next: text => (text.includes('from') ? { errcode } : null) })
  const error = await rowsOf(database).catch((error: unknown) => error)
  expect(error).toBeInstanceOf(DatabaseUnavailable)
  expect(error).toMatchObject({ kind, reason: 'said', sqlState: null, isOutcomeUnknown: false })
  expect(reported).toEqual([kind])
  await expect(rowsOf(database)).rejects.toMatchObject({ kind })
  expect(reported).toEqual([kind, kind])
})

test.each([{ errcode: 1 }, { errcode: 19 }, { errcode: '10' }, { code: 10 }, {}])(
  'any other error is a mistake of ours, and stays as it is: %o',
  async failure => {
    const { database, reported } = open({ next: text => (text.includes('from') ? failure : null) })
    const error = await rowsOf(database).catch((error: unknown) => error)
    expect(error).not.toBeInstanceOf(DatabaseUnavailable)
    expect([error, reported]).toEqual([expect.objectContaining({ message: 'said', ...failure }), []])
  },
)

test.each([5, 261, 6, 262, 15])('a statement that meets a lock (%d) waits for it', async errcode => {
  let left = 3
  const { database, reported } = open({ next: () => (left-- > 0 ? { errcode } : null) })
  expect(await rowsOf(database)).toEqual([])
  expect([left, reported]).toEqual([-1, []])
})

test('a lock is waited for two seconds, and a later one as long', async () => {
  let nowMs = performance.now()
  const now = vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
  onTestFinished(() => now.mockRestore())
  /** How much later each statement finds it held. */
  let held = [0, 1_999, 1]
  const { database, reported } = open({
    next: () => {
      const passedMs = held.shift()
      nowMs += passedMs ?? 0
      return passedMs === undefined ? null : { errcode: 5 }
    },
  })
  await expect(rowsOf(database)).rejects.toMatchObject({ kind: 'busy' })
  expect([held, reported]).toEqual([[], ['busy']])
  expect(await rowsOf(database)).toEqual([])
  nowMs += 60_000
  held = [0, 1_999]
  expect(await rowsOf(database)).toEqual([])
  expect([held, reported]).toEqual([[], ['busy']])
})

test.each([
  ['commit', 10, true],
  ['commit', 3338, true],
  ['commit', 13, false],
  ['insert', 10, false],
])(
  'after a %s with the code %d it is unknown whether the change was made: %s',
  async (at, errcode, isUnknown) => {
    let isFailing = false
    const { database, reported } = open({
      next: text => (isFailing && text.startsWith(at) ? { errcode } : null),
    })
    isFailing = true
    const change = database.transaction().execute(async tx => {
      await tx.insertInto('numbers').values({ n: 1, text: null }).execute()
    })
    await expect(change).rejects.toMatchObject({ isOutcomeUnknown: isUnknown, reason: 'said' })
    expect(reported).toHaveLength(1)
    expect(await rowsOf(database)).toEqual([])
  },
)

test('a transaction that SQLite has rolled back itself says why, and the next one works', async () => {
  const { database } = open()
  const change = database.transaction().execute(async tx => {
    await sql`insert into numbers (n) values (1)`.execute(tx)
    await sql`insert or rollback into numbers (n) values (1)`.execute(tx)
  })
  await expect(change).rejects.toThrow('UNIQUE constraint failed')
  await database.transaction().execute(tx => sql`insert into numbers (n) values (2)`.execute(tx))
  const failed = database.transaction().execute(async tx => {
    await sql`insert into numbers (n) values (3)`.execute(tx)
    throw new Error('changed its mind')
  })
  await expect(failed).rejects.toThrow('changed its mind')
  expect(await rowsOf(database)).toEqual([{ n: 2, text: null }])
})

test('a transaction takes the lock for writing when it begins', async () => {
  const { database, raw } = open()
  await database.transaction().execute(async tx => {
    expect(raw.isTransaction).toBe(true)
    await expect(sql`begin`.execute(tx)).rejects.toThrow('within a transaction')
  })
  expect(raw.isTransaction).toBe(false)
})

test.each([
  ['select', sql`select n, text from numbers`],
  ['a select on a line of its own', sql`\n   SELECT n, text from numbers`],
  ['an insert', sql`insert into numbers select 0 - n, text from numbers returning 0 - n as n, text`],
  ['an update', sql`update numbers set text = text returning n, text`],
])('numbers beyond 53 bits are the nearest ones that fit, in what %s returns', async (_, statement) => {
  const { database } = open()
  await sql`insert into numbers values (${sql.lit(2)}, 'small')`.execute(database)
  await sql`insert into numbers values (1152921504606846977, 'large')`.execute(database)
  const before = (await rowsOf(database)).length
  const { rows } = await statement.execute(database)
  expect(rows).toEqual([
    { n: 2, text: 'small' },
    { n: Number(2n ** 60n), text: 'large' },
  ])
  expect(before).toBe(2)
})

test('an error while rows are read is that of SQLite', async () => {
  const { database } = open()
  const overflow = sql`select abs(-9223372036854775807 - 1) as n`.execute(database)
  await expect(overflow).rejects.toThrow('integer overflow')
})

test('rows can be read one after the other, and a change says how many rows it changed', async () => {
  const { database, raw } = open()
  for (const n of [1, 2, 3]) await database.insertInto('numbers').values({ n, text: null }).execute()
  const seen: number[] = []
  for await (const { n } of database.selectFrom('numbers').select('n').where('n', '>', 1).stream())
    seen.push(n)
  expect(seen).toEqual([2, 3])
  const { numDeletedRows } = await database.deleteFrom('numbers').where('n', '<', 3).executeTakeFirstOrThrow()
  expect(Number(numDeletedRows)).toBe(2)
  await database.destroy()
  expect(raw.isOpen).toBe(false)
})
