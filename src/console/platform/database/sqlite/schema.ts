import { DatabaseSync } from 'node:sqlite'
import { Kysely, sql } from 'kysely'
import {
  compareSchemas,
  type Migrations,
  migrate,
  type SchemaDifference,
  type SchemaObject,
} from '../migrations.ts'
import type { Tables } from '../tables.ts'
import { NodeSqliteDialect } from './dialect.ts'

/** What ANALYZE writes: it changes plans, and no result. */
const STATISTICS = /^CREATE TABLE sqlite_stat[1-4]\(/

/**
 * Compares all that SQLite reads as the schema with what the migrations make in a database in memory.
 * @param last the last migration that was applied; null for all
 */
export async function compareSqliteSchema(
  database: Kysely<Tables>,
  migrations: Migrations,
  last: string | null = null,
): Promise<SchemaDifference[]> {
  const expected = new Kysely<Tables>({ dialect: new NodeSqliteDialect(new DatabaseSync(':memory:')) })
  try {
    await migrate(expected, 'sqlite', migrations, last)
    return compareSchemas(await readObjects(expected), await readObjects(database))
  } finally {
    await expected.destroy()
  }
}

/** From `sqlite_master`: a table of the file can be named `sqlite_schema`, and would hide what it does not list. */
async function readObjects(database: Kysely<Tables>): Promise<SchemaObject[]> {
  const { rows } = await sql<{ type: string; name: string; tbl_name: string; sql: string | null }>`
    select type, name, tbl_name, sql from main.sqlite_master order by type, name`.execute(database)
  const { rows: encodings } = await sql<{ encoding: string }>`pragma encoding`.execute(database)
  const objects = rows
    .filter(row => !STATISTICS.test(row.sql ?? ''))
    .map(row => ({
      name:
        row.type === 'table' || row.type === 'view'
          ? qualifiedName(row)
          : `${qualifiedName(row)} on ${row.tbl_name}`,
      // Versions of the program may break lines differently.
      definition: `${row.tbl_name}: ${(row.sql ?? '').replaceAll(/\s+/g, ' ')}`,
    }))
  return [{ name: 'encoding', definition: encodings[0]?.encoding ?? '' }, ...objects]
}

function qualifiedName({ type, name }: { readonly type: string; readonly name: string }): string {
  return `${type} ${name}`
}
