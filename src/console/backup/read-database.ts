import type { Kysely } from 'kysely'
import { describeError } from '../../observability/control-logger.ts'
import { type ChainReport, NoAuditChain, verifyAudit } from '../audit/index.ts'
import type { AuditKeys } from '../platform/audit/mac.ts'
import { DATABASE_SETTING, Refused } from '../platform/database/database.ts'
import {
  describeDifferences,
  lastMigration,
  missingMigrations,
  NewerSchema,
  type SchemaDifference,
} from '../platform/database/migrations.ts'
import { countConsoles, type ReadOnlyOptions } from '../platform/database/postgres/database.ts'
import { isNotPermitted } from '../platform/database/postgres/errors.ts'
import { comparePostgresSchema } from '../platform/database/postgres/schema.ts'
import { checkIntegrity, lockSqliteFile, sqliteFilePath } from '../platform/database/sqlite/database.ts'
import { compareSqliteSchema } from '../platform/database/sqlite/schema.ts'
import type { Tables } from '../platform/database/tables.ts'
import { readDatabase } from '../platform/open-database.ts'
import { readFingerprints } from '../platform/signing-secrets.ts'
import { MIGRATIONS } from '../schema.ts'

interface ReadOptions extends Partial<ReadOnlyOptions> {
  /** Before, on the same connection. */
  readonly check?: (connection: Kysely<Tables>) => Promise<void>
}

/** Reads a PostgreSQL database as of one moment, beside consoles that write to it. */
export async function readPostgres<Result>(
  url: string,
  read: (source: Kysely<Tables>) => Promise<Result>,
  { name = DATABASE_SETTING, seesConsoles = false, check }: ReadOptions = {},
): Promise<Result> {
  const readNow = async (connection: Kysely<Tables>) => {
    await check?.(connection)
    return connection
      .transaction()
      .setIsolationLevel('repeatable read')
      .execute(async source => {
        await requireSchema(source, 'The database')
        return read(source)
      })
  }
  return readDatabase(url, readNow, { name, seesConsoles })
}

/**
 * Reads a database that no console may change meanwhile: what it changed later would be lost.
 * @param name of the argument
 */
export async function readStopped<Result>(
  url: string,
  name: string,
  read: (source: Kysely<Tables>) => Promise<Result>,
): Promise<Result> {
  const file = sqliteFilePath(url)
  if (file === null) {
    const readAlone = async (source: Kysely<Tables>) => {
      await requireNoConsole(source)
      return read(source)
    }
    const check = async (connection: Kysely<Tables>) => {
      await requireSchema(connection, `${name}: the database`)
      await requireOwnPostgres(connection, name)
    }
    return readPostgres(url, readAlone, { name, seesConsoles: true, check })
  }
  const readAlone = (source: Kysely<Tables>) =>
    whileLocked(url, name, async () => {
      checkIntegrity(file, `${name} (${file})`, true)
      await requireSchema(source, `${name}: the database`)
      await requireOwnFile(source, name)
      return read(source)
    })
  return readDatabase(url, readAlone, { name })
}

export async function countKeys(database: Kysely<Tables>): Promise<number> {
  const { count } = await database
    .selectFrom('keys')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return count
}

/** No console can start on the SQLite file meanwhile. @throws if one runs */
export async function whileLocked<Result>(
  url: string,
  name: string,
  run: () => Promise<Result>,
): Promise<Result> {
  const release = lockSqliteFile(url, name)
  try {
    return await run()
  } finally {
    release()
  }
}

/** @throws Refused while consoles are connected to the PostgreSQL database */
export async function requireNoConsole(connection: Kysely<Tables>): Promise<void> {
  const count = await countConsoles(connection)
  if (count === 0) return
  throw new Refused(
    'A console uses this PostgreSQL database: stop every console first. A pooler keeps sessions of stopped consoles for some minutes',
  )
}

/** @throws Refused unless the database has exactly the schema of this version */
async function requireSchema(database: Kysely<Tables>, name: string): Promise<void> {
  const missing = await missingMigrations(database, MIGRATIONS).catch(refuseNewer(name))
  if (missing.length === 0) return
  if ((await lastMigration(database)) === null) throw new Refused(`${name} has no tables of Postern`)
  throw new Refused(
    `${name} has an older schema (without ${missing.join(', ')}): start the console of this version on it once, which migrates it`,
  )
}

/**
 * A trigger, rule or view of another maker can change, hide or undo what is written, such as a revocation.
 * @throws Refused unless the schema is as the migrations make it
 */
function requireNoDifferences(differences: readonly SchemaDifference[], name: string): void {
  if (differences.length === 0) return
  throw new Refused(
    `The schema of ${name} is not as Postern makes it: ${describeDifferences(differences)}. Such objects can undo what is written, ` +
      'so nothing was changed. Correct the schema, such as with DROP INDEX for an index that you added, or use another file or database',
  )
}

/** The same for a SQLite file, whose schema may be an older one. */
export async function requireOwnFile(database: Kysely<Tables>, name: string): Promise<void> {
  const missing = await missingMigrations(database, MIGRATIONS).catch(refuseNewer(name))
  const last = await lastMigration(database)
  if (last === null || missing.some(migration => migration < last)) {
    throw new Refused(`${name} is no database of Postern: its list of migrations is missing or incomplete`)
  }
  requireNoDifferences(await compareSqliteSchema(database, MIGRATIONS, last), name)
}

/** The same for a PostgreSQL database of this version. */
export async function requireOwnPostgres(connection: Kysely<Tables>, name: string): Promise<void> {
  const differences = await comparePostgresSchema(connection, MIGRATIONS).catch((error: unknown) => {
    if (!isNotPermitted(error)) throw error
    throw new Refused(
      `The schema of ${name} cannot be compared with that of Postern: ${describeError(error)}. ` +
        'The user needs the right to create schemas there: GRANT CREATE ON DATABASE … TO …',
    )
  })
  requireNoDifferences(differences, name)
}

export interface AuditCheck {
  /** Of the signing secrets that are given: of an entry that another one signed, only place and hash are checked. */
  readonly auditKeys: AuditKeys
  readonly nowMs: number
}

export interface CheckedAudit extends ChainReport {
  /** The first entries that were changed, removed or inserted, or that no console wrote; null if there is none. */
  readonly broken: string | null
}

export async function checkAudit(
  database: Kysely<Tables>,
  name: string,
  { auditKeys, nowMs }: AuditCheck,
): Promise<CheckedAudit> {
  const report = await verifyAudit(database, { keptHead: null, keys: auditKeys, nowMs }).catch(
    (error: unknown) => {
      throw error instanceof NoAuditChain ? new Refused(`${name} has no audit chain`) : error
    },
  )
  // Entries that a console which was killed left waiting are added to the chain by the next one.
  const isIntact = report.problemCount === report.lateCount
  return { ...report, broken: isIntact ? null : report.problems.slice(0, 3).join('; ') }
}

/** @throws Refused for a broken audit chain, unless it is allowed */
export async function requireAuditChain(
  database: Kysely<Tables>,
  name: string,
  check: AuditCheck & { readonly allowsBrokenAudit?: boolean; readonly advice?: string },
): Promise<CheckedAudit> {
  const report = await checkAudit(database, name, check)
  if (report.broken === null || check.allowsBrokenAudit === true) return report
  throw new Refused(`The audit chain of ${name} is broken: ${report.broken}${check.advice ?? ''}`)
}

/**
 * The secrets of another installation verify none of its records: what was revoked would look as if it were not.
 * @param fingerprints of the given secrets
 * @throws Refused unless one of them has signed keys of the database
 */
export async function requireSigningSecret(
  database: Kysely<Tables>,
  name: string,
  fingerprints: readonly string[],
): Promise<void> {
  if (fingerprints.length === 0) return
  const known = await readFingerprints(database)
  if (known.size === 0 || fingerprints.some(fingerprint => known.has(fingerprint))) return
  throw new Refused(
    `keys.signingSecrets: none of these secrets signed keys of ${name}, so nothing was changed: revoked keys could work again. ` +
      'Set the secrets that its console had',
  )
}

/** Says which database it is. */
function refuseNewer(name: string): (error: unknown) => never {
  return error => {
    throw error instanceof NewerSchema ? new Refused(`${name}: ${error.message}`) : error
  }
}
