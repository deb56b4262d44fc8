import type { Kysely } from 'kysely'
import { narrowReload, reloadable } from '../../config/reloadable.ts'
import { StartError } from '../../domain/start-error.ts'
import { type ControlLogger, describeError } from '../../observability/control-logger.ts'
import { type Metrics, SCHEMA_DIFFERENCE_KINDS } from '../../observability/metrics/metrics.ts'
import { type AuditedDatabase, createAuditTrust } from './audit/mac.ts'
import { type ConsoleContext, importSecrets } from './console-context.ts'
import type { Database } from './database/database.ts'
import { DatabaseHealth, probeDatabase } from './database/database-health.ts'
import { DATABASE_TROUBLES, type DatabaseTrouble } from './database/database-unavailable.ts'
import { describeDifferences, type Migrations, type SchemaDifference } from './database/migrations.ts'
import { comparePostgresSchema } from './database/postgres/schema.ts'
import { lockSqliteFile } from './database/sqlite/database.ts'
import { compareSqliteSchema } from './database/sqlite/schema.ts'
import type { Tables } from './database/tables.ts'
import { openDatabase, waitForDatabase } from './open-database.ts'

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

/**
 * Keeps a fingerprint of each secret that signed keys of this database, and does not start with secrets that signed none of
 * them: gateways would reject every key. During a rotation one of the secrets is known.
 */
async function checkSigningSecrets(context: ConsoleContext, database: Database): Promise<void> {
  const { config, clock, secrets, logger, onReload } = context
  const { fingerprints } = secrets.value
  const nowMs = clock.wallMs()
  const known = await readFingerprints(database.reader)
  const isKnown = known.size === 0 || fingerprints.some(fingerprint => known.has(fingerprint))
  if (!isKnown && config.keys.format !== 'opaque') await requireNoKeys(database, nowMs)
  // Of a new database: keys that are imported may be signed by each of the secrets.
  await addFingerprints(database, known.size === 0 ? fingerprints : fingerprints.slice(0, 1), nowMs)
  onReload(next => {
    const [first] = importSecrets(next).fingerprints
    return () => {
      addFingerprints(database, first === undefined ? [] : [first], clock.wallMs()).catch((error: unknown) =>
        logger.warn(
          { cause: describeError(error) },
          'signing secret not recorded, will be at the next start',
        ),
      )
    }
  })
}

/** Revoked keys count too: their records in Redis and their audit entries could no longer be verified. */
async function requireNoKeys({ reader }: Database, nowMs: number): Promise<void> {
  const { count } = await reader
    .selectFrom('keys')
    .where('expires_at_ms', '>', nowMs)
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  if (Number(count) > 0) throw new StartError(unknownSecretsText(Number(count)))
}

async function readFingerprints(reader: Kysely<Tables>): Promise<ReadonlySet<string>> {
  const rows = await reader.selectFrom('signing_secrets').select('fingerprint').execute()
  return new Set(rows.map(({ fingerprint }) => fingerprint))
}

async function addFingerprints(
  { writer }: Database,
  fingerprints: readonly string[],
  nowMs: number,
): Promise<void> {
  if (fingerprints.length === 0) return
  await writer
    .insertInto('signing_secrets')
    .values(fingerprints.map(fingerprint => ({ fingerprint, first_used_at_ms: nowMs, signs_audit_at_ms: 0 })))
    .onConflict(conflict => conflict.doNothing())
    .execute()
}

function unknownSecretsText(count: number): string {
  const keys = count === 1 ? '1 key of this database is' : `${count} keys of this database are`
  return (
    `keys.signingSecrets: ${keys} in use or revoked, and none of these secrets signed any of them: no process could verify them. ` +
    'Add the former secret at the end of the list, or set database.url to the right database. If the former secret is lost, ' +
    'see docs/operate/rotate-secrets.md'
  )
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
