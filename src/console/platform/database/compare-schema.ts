import type { Kysely } from 'kysely'
import type { Database } from './database.ts'
import { comparePostgresSchema } from './postgres-schema.ts'
import type { SchemaDifference } from './schema-object.ts'
import { compareSqliteSchema } from './sqlite-schema.ts'
import type { Tables } from './tables.ts'

/** Compares the schema of a migrated database with what the migrations of this version make. */
export function compareSchema({
  writer,
  reader,
  dialect,
}: Pick<Database, 'writer' | 'reader' | 'dialect'>): Promise<SchemaDifference[]> {
  return dialect === 'sqlite' ? compareSqliteSchema(reader) : comparePostgres(writer)
}

/** Changes nothing. */
export function comparePostgres(connection: Kysely<Tables>): Promise<SchemaDifference[]> {
  return connection.transaction().setAccessMode('read write').execute(comparePostgresSchema)
}
