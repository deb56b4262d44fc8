import { narrowReload, reloadable } from '../../config/reloadable.ts'
import { type ControlLogger, describeError } from '../../observability/control-logger.ts'
import { type Metrics, SCHEMA_DIFFERENCE_KINDS } from '../../observability/metrics/metrics.ts'
import { type AuditedDatabase, createAuditTrust } from './audit/mac.ts'
import type { ConsoleContext } from './capability.ts'
import type { Database } from './database/database.ts'
import { DatabaseHealth, probeDatabase } from './database/database-health.ts'
import { DATABASE_TROUBLES, type DatabaseTrouble } from './database/database-unavailable.ts'
import { describeDifferences, type Migrations, type SchemaDifference } from './database/migrations.ts'
import { comparePostgresSchema } from './database/postgres/schema.ts'
import { isLowOnSpace, lockSqliteFile } from './database/sqlite/database.ts'
import { compareSqliteSchema } from './database/sqlite/schema.ts'
import { openDatabase, waitForDatabase } from './open-database.ts'
import { checkSigningSecrets } from './signing-secrets.ts'

/** The database of a running console. A SQLite file is locked until it is closed. */
interface ConsoleDatabase extends AuditedDatabase {
  readonly health: DatabaseHealth
}

/** Waits for the database of the settings, migrates it, and checks that it is the one of these signing secrets. */
export async function openConsoleDatabase(
  context: ConsoleContext,
  migrations: Migrations,
): Promise<ConsoleDatabase> {
  // Asked once the console is open.
  const probe = async () => {
    await probeDatabase(database, context)
    return (await isLowOnSpace(context.config.database.url)) ? 'low_space' : 'ok'
  }
  const health = new DatabaseHealth({ ...context, probe })
  const database = { ...(await openLocked(context, migrations, () => health.doubt())), health }
  try {
    await checkSigningSecrets(context, database)
  } catch (error) {
    await database.close()
    throw error
  }
  await reportSchema(context, database, migrations)
  return database
}

async function openLocked(
  context: ConsoleContext,
  migrations: Migrations,
  onTrouble: () => void,
): Promise<AuditedDatabase> {
  const release = lockSqliteFile(context.config.database.url)
  try {
    const database = await awaitDatabase(context, migrations, onTrouble)
    return { ...database, audit: createAuditTrust(context), close: () => database.close().finally(release) }
  } catch (error) {
    release()
    throw error
  }
}

function awaitDatabase(
  context: ConsoleContext,
  migrations: Migrations,
  onTrouble: () => void,
): Promise<Database> {
  const { config, onReload, onWaiting, metrics } = context
  for (const kind of DATABASE_TROUBLES) metrics.databaseErrors.inc({ kind }, 0)
  const report = (kind: DatabaseTrouble) => {
    metrics.databaseErrors.inc({ kind })
    onTrouble()
  }
  const onUrlReload = narrowReload(onReload, next => next.database.url)
  // Read at each attempt: a reload may correct the password while the console waits.
  const url = reloadable(config.database.url, onUrlReload, current => current)
  return waitForDatabase(() => openDatabase(url.value, migrations, { onReload: onUrlReload, report }), {
    ...context,
    onWaiting: () => onWaiting('database'),
  })
}

/**
 * Warns of objects in the database that are not as the migrations make them: a trigger can undo a revocation. The console
 * starts, because operators add indexes.
 */
async function reportSchema(
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
  return dialect === 'sqlite'
    ? compareSqliteSchema(reader, migrations)
    : comparePostgresSchema(writer, migrations)
}
