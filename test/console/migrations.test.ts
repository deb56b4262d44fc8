import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import {
  compareSchemas,
  createSchema,
  describeDifferences,
  lastMigration,
  migrate,
  missingMigrations,
  type SchemaDifference,
} from '../../src/console/platform/database/migrations.ts'
import { openDatabase as openMigrated } from '../../src/console/platform/open-database.ts'
import { MIGRATIONS } from '../../src/console/schema.ts'
import { openDatabase } from '../support/open-database.ts'
import type { Connection } from '../support/watched-sessions.ts'

const statement = (text: string) => async (database: Connection) =>
  void (await sql.raw(text).execute(database))
/** In no order; each needs the one before it. */
const NEXT = {
  '0003_column': statement('alter table made_up add column more text'),
  ...MIGRATIONS,
  '0002_table': statement('create table made_up (id text)'),
  '0004_column': statement('alter table made_up rename column more to most'),
}

/** Two objects of one name. */
const sharing = (...definitions: readonly [string, string]) =>
  definitions.map(definition => ({ name: 'index twice', definition }))

async function empty(): Promise<Connection> {
  const { writer, close } = await openMigrated('sqlite::memory:', {})
  onTestFinished(close)
  return writer
}

async function columnsOf(database: Connection): Promise<unknown[]> {
  const { rows } = await sql<{ name: string }>`select name from pragma_table_info('made_up')`.execute(
    database,
  )
  return rows.map(({ name }) => name)
}

test('migrations run in the order of their names, up to the one that was asked for', async () => {
  const database = await empty()
  expect(await lastMigration(database)).toBeNull()
  expect(await missingMigrations(database, NEXT)).toEqual([
    ...['0003_column', '0001_first_tables', '0002_table', '0004_column'],
  ])
  await migrate(database, 'sqlite', NEXT, '0002_table')
  expect([await lastMigration(database), await columnsOf(database)]).toEqual(['0002_table', ['id']])
  expect(await missingMigrations(database, NEXT)).toEqual(['0003_column', '0004_column'])
  await migrate(database, 'sqlite', NEXT)
  expect([await lastMigration(database), await columnsOf(database)]).toEqual(['0004_column', ['id', 'most']])
  expect(await missingMigrations(database, NEXT)).toEqual([])
})

test('a schema that is made for a comparison has its migrations in the order of their names', async () => {
  const database = await empty()
  await createSchema(database, 'sqlite', NEXT)
  expect(await columnsOf(database)).toEqual(['id', 'most'])
})

test('a newer database is refused with the names of all its migrations, and one that fails with its cause', async () => {
  const database = await empty()
  await migrate(database, 'sqlite', NEXT)
  const refusal = missingMigrations(database, MIGRATIONS)
  await expect(refusal).rejects.toThrow(
    'newer Postern: it has 0002_table, 0003_column, 0004_column, which this version does not know. Start that newer version',
  )
  const broken = migrate(database, 'sqlite', {
    ...NEXT,
    '0005_x': async (database: Connection) => {
      await sql`create table left_behind (id text)`.execute(database)
      await sql`create table made_up (id text)`.execute(database)
    },
  })
  await expect(broken).rejects.toMatchObject({
    message: 'The database could not be migrated',
    cause: { message: expect.stringContaining('already exists') },
  })
  expect(await lastMigration(database)).toBe('0004_column')
  const { rows } = await sql`select name from sqlite_master where name = 'left_behind'`.execute(database)
  expect(rows).toEqual([])
})

test('texts of SQLite are of the type text', async () => {
  const { reader, close } = await openDatabase('sqlite::memory:')
  onTestFinished(close)
  const { rows } = await sql<{ name: string }>`
    select name from pragma_table_info('keys') where type = 'TEXT' order by cid`.execute(reader)
  expect(rows.map(({ name }) => name).slice(0, 4)).toEqual(['id', 'digest', 'workspace_id', 'name'])
})

test('what differs between two schemas is named: missing, changed or added, also where two objects share a name', () => {
  const expected = [
    { name: 'table same', definition: 'a' },
    { name: 'table other', definition: 'a' },
    { name: 'table gone', definition: 'a' },
    { name: 'index twice', definition: 'a' },
  ]
  const actual = [
    { name: 'table same', definition: 'a' },
    { name: 'table other', definition: 'b' },
    { name: 'table new', definition: 'a' },
    { name: 'index twice', definition: 'a' },
    { name: 'index twice', definition: 'a' },
  ]
  const found = compareSchemas(expected, actual)
  expect(found.map(({ change, name }) => `${change} ${name}`).toSorted()).toEqual([
    'added table new',
    'changed index twice',
    'changed table other',
    'missing table gone',
  ])
  expect(compareSchemas(actual, actual)).toEqual([])
  expect(compareSchemas(sharing('a', 'b'), sharing('a', 'b'))).toEqual([])
  for (const [first, second] of [
    ['c', 'b'],
    ['a', 'c'],
  ] as const) {
    expect(compareSchemas(sharing('a', 'b'), sharing(first, second))).toEqual([
      { change: 'changed', name: 'index twice' },
    ])
  }
})

test.each([
  [1, 'added x0'],
  [5, 'added x0, added x1, added x2, added x3, added x4'],
  [6, 'added x0, added x1, added x2, added x3, added x4 and 1 more'],
  [9, 'added x0, added x1, added x2, added x3, added x4 and 4 more'],
])('of %d differences at most five are named: %s', (count, text) => {
  const differences = Array.from(
    { length: count },
    (_, index): SchemaDifference => ({ change: 'added', name: `x${index}` }),
  )
  expect(describeDifferences(differences)).toBe(text)
})
