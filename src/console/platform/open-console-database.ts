import { narrowReload, reloadable } from '../../config/reloadable.ts'
import { type AuditedDatabase, createAuditTrust } from './audit/mac.ts'
import { reportSchema } from './check-schema.ts'
import type { ConsoleContext } from './console-context.ts'
import type { Database } from './database/database.ts'
import { DatabaseHealth, probeDatabase } from './database/database-health.ts'
import { DATABASE_TROUBLES, type DatabaseTrouble } from './database/database-unavailable.ts'
import type { Migrations } from './database/migrations.ts'
import { lockSqliteFile } from './database/sqlite/database.ts'
import { openDatabase, waitForDatabase } from './open-database.ts'
import { checkSigningSecrets } from './signing-secrets.ts'

/** The database of a running console. A SQLite file is locked until it is closed. */
export interface ConsoleDatabase extends AuditedDatabase {
  readonly health: DatabaseHealth
}

/** Waits for the database of the settings, migrates it, and checks that it is the one of these signing secrets. */
export async function openConsoleDatabase(
  context: ConsoleContext,
  migrations: Migrations,
): Promise<ConsoleDatabase> {
  // Asked once the console is open.
  const probe = () => probeDatabase(database, context)
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
    onWaiting: () => onWaiting?.('database'),
  })
}
