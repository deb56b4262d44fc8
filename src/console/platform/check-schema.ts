import type { Kysely } from 'kysely'
import { type ControlLogger, describeError } from '../../observability/control-logger.ts'
import { type Metrics, SCHEMA_DIFFERENCE_KINDS } from '../../observability/metrics/metrics.ts'
import type { Database } from './database/database.ts'
import { describeDifferences, type Migrations, type SchemaDifference } from './database/migrations.ts'
import { comparePostgresSchema } from './database/postgres/schema.ts'
import { compareSqliteSchema } from './database/sqlite/schema.ts'
import type { Tables } from './database/tables.ts'

/**
 * Warns of objects in the database that are not as the migrations make them: a trigger can undo a revocation. The console
 * starts, because operators add indexes.
 */
export async function reportSchema(
  { logger, metrics }: { readonly logger: ControlLogger; readonly metrics: Metrics },
  database: Database,
  migrations: Migrations,
): Promise<void> {
  for (const kind of SCHEMA_DIFFERENCE_KINDS) metrics.schemaDifferences.set({ kind }, 0)
  try {
    const differences = await compareSchema(database, migrations)
    for (const { change } of differences) metrics.schemaDifferences.inc({ kind: change })
    if (differences.length === 0) return
    logger.warn(
      { differences: describeDifferences(differences), count: differences.length },
      'database schema is not as the migrations make it',
    )
  } catch (error) {
    metrics.schemaDifferences.set({ kind: 'unknown' }, 1)
    logger.warn({ cause: describeError(error) }, 'database schema could not be compared')
  }
}

/** Compares the schema of a migrated database with what the migrations of this version make. */
export function compareSchema(
  { writer, reader, dialect }: Pick<Database, 'writer' | 'reader' | 'dialect'>,
  migrations: Migrations,
): Promise<SchemaDifference[]> {
  return dialect === 'sqlite' ? compareSqliteSchema(reader, migrations) : comparePostgres(writer, migrations)
}

/** Changes nothing. */
export function comparePostgres(
  connection: Kysely<Tables>,
  migrations: Migrations,
): Promise<SchemaDifference[]> {
  const transaction = connection.transaction().setAccessMode('read write')
  return transaction.execute(tx => comparePostgresSchema(tx, migrations))
}
