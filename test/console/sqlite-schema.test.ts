import { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { migrate } from '../../src/console/platform/database/migrations.ts'
import { NodeSqliteDialect } from '../../src/console/platform/database/sqlite/dialect.ts'
import { compareSqliteSchema } from '../../src/console/platform/database/sqlite/schema.ts'
import type { Tables } from '../../src/console/platform/database/tables.ts'
import { MIGRATIONS } from '../../src/console/schema.ts'

/** @returns what differs after these statements in a database that was migrated, and ran others before that */
async function differencesAfter(statements: string, before = ''): Promise<string[]> {
  const raw = new DatabaseSync(':memory:', { defensive: false } as object)
  const database = new Kysely<Tables>({ dialect: new NodeSqliteDialect(raw) })
  onTestFinished(() => database.destroy())
  raw.exec(before)
  await migrate(database, 'sqlite', MIGRATIONS)
  raw.exec(`pragma writable_schema = on; ${statements}`)
  const differences = await compareSqliteSchema(database, MIGRATIONS)
  return differences.map(({ change, name }) => `${change} ${name}`).toSorted()
}

test.each([
  ['', []],
  ['analyze', []],
  // Versions of the program may break lines differently.
  [
    `update sqlite_master set sql = replace(sql, ' not null', char(10) || '   not null') where name = 'outbox'`,
    [],
  ],
  ['create table x (a)', ['added table x']],
  ['create view x as select 1', ['added view x']],
  ['create index x on keys (created_by)', ['added index x on keys']],
  ['create table x (a unique)', ['added index sqlite_autoindex_x_1 on x', 'added table x']],
  ['create table sqlite_state (a)', ['added table sqlite_state']],
  ['drop index keys_by_hint', ['missing index keys_by_hint on keys']],
  ['alter table refusal_gaps rename column at_ms to at', ['changed table refusal_gaps']],
  [
    `update sqlite_master set tbl_name = 'audit' where name = 'keys_by_hint'`,
    ['added index keys_by_hint on audit', 'missing index keys_by_hint on keys'],
  ],
] as const)('after "%s" a SQLite file differs by %j', async (statements, differences) => {
  expect(await differencesAfter(statements)).toEqual(differences)
})

test('a SQLite file whose texts have another encoding is another one', async () => {
  expect(await differencesAfter('', `pragma encoding = 'UTF-16le'`)).toEqual(['changed encoding'])
})
