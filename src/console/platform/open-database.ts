import { existsSync, statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import { neverReloads, type OnReload } from '../../config/reloadable.ts'
import type { Clock, Timers } from '../../domain/clock.ts'
import { isPostgresAddress } from '../../domain/postgres-address.ts'
import { type ControlLogger, describeError } from '../../observability/control-logger.ts'
import { DATABASE_SETTING, type Database, DatabaseUnreachable, Refused } from './database/database.ts'
import type { ReportTrouble } from './database/database-unavailable.ts'
import type { Migrations } from './database/migrations.ts'
import { openPostgres, openPostgresReadOnly, type ReadOnlyOptions } from './database/postgres/database.ts'
import { openSqlite, requireSqliteFile, sqliteFilePath } from './database/sqlite/database.ts'
import { NodeSqliteDialect } from './database/sqlite/dialect.ts'
import type { Tables } from './database/tables.ts'
import { backoffMs } from './jobs/timers.ts'

const LOG_INTERVAL_MS = 30_000

export interface OpenOptions {
  /** Reports a new user or password for the same database. */
  readonly onReload?: OnReload<string>
  /** Counts errors of the open database. */
  readonly report?: ReportTrouble
}

/**
 * Opens the database and migrates its schema. Error messages never repeat the URL: it may hold a password.
 * @param url `sqlite:FILE`, `sqlite::memory:` or `postgres://…`
 * @throws DatabaseUnreachable if another attempt may succeed
 */
export async function openDatabase(
  url: string,
  migrations: Migrations,
  { onReload = neverReloads, report = () => {} }: OpenOptions = {},
): Promise<Database> {
  if (isPostgresAddress(url)) return openPostgres(url, migrations, { onReload, report })
  const file = sqliteFilePath(url)
  if (file !== null) return openSqlite(file, migrations, report)
  throw new Error('database.url must be sqlite:FILE, such as sqlite:postern.db, or postgres://…')
}

/**
 * Retries without limit while the database is unreachable: exiting would only put the console through restart back-off.
 * @throws any other error, such as a wrong password, which retrying does not fix
 */
export async function waitForDatabase(
  open: () => Promise<Database>,
  parts: { clock: Clock; timers: Timers; logger: ControlLogger; random: () => number; onWaiting: () => void },
): Promise<Database> {
  let loggedAtMs = Number.NEGATIVE_INFINITY
  for (let failures = 1; ; failures++) {
    try {
      return await open()
    } catch (error) {
      if (!(error instanceof DatabaseUnreachable)) throw error
      parts.onWaiting()
      const nowMs = parts.clock.monotonicMs()
      if (nowMs - loggedAtMs >= LOG_INTERVAL_MS) {
        parts.logger.warn({ cause: describeError(error) }, 'waiting for the database')
        loggedAtMs = nowMs
      }
      const { promise, resolve } = Promise.withResolvers<void>()
      parts.timers.after(backoffMs(failures, parts.random()), resolve)
      await promise
    }
  }
}

const BUSY_TIMEOUT_MS = 2000

const NAME_SETTINGS =
  'Name the settings of the console with --config, or its database with POSTERN_DATABASE_URL'

/**
 * One connection that cannot write and migrates nothing, also beside a running console. Destroy it after use.
 * @param url `sqlite:FILE` or `postgres://…`; error messages never repeat it
 */
export async function openReadOnly(
  url: string,
  { name = DATABASE_SETTING, seesConsoles = false }: Partial<ReadOnlyOptions> = {},
): Promise<Kysely<Tables>> {
  if (isPostgresAddress(url)) return openPostgresReadOnly(url, { name, seesConsoles })
  const file = sqliteFilePath(url)
  if (file === null || file === ':memory:' || !existsSync(file)) {
    const advice = name === DATABASE_SETTING ? `. ${NAME_SETTINGS}` : ''
    throw new Refused(`${name}: there is no SQLite file to read at ${file}${advice}`)
  }
  // An empty file is a database without tables.
  if (statSync(file).size > 0) await requireSqliteFile(file, `${name}: the file ${file}`)
  return new Kysely<Tables>({ dialect: new NodeSqliteDialect(openFile(file, name)) })
}

/** Reads on such a connection, which is closed in the end. */
export async function readDatabase<Result>(
  url: string,
  read: (database: Kysely<Tables>) => Promise<Result>,
  options?: Partial<ReadOnlyOptions>,
): Promise<Result> {
  const database = await openReadOnly(url, options)
  try {
    return await read(database)
  } finally {
    await database.destroy()
  }
}

function openFile(file: string, name: string): DatabaseSync {
  let database: DatabaseSync | undefined
  try {
    database = new DatabaseSync(file, { readOnly: true, timeout: BUSY_TIMEOUT_MS })
    // Reads the schema, which SQLite does not do until it is needed.
    database.prepare('select count(*) from sqlite_master').get()
    return database
  } catch (error) {
    database?.close()
    throw new Refused(`${name}: the SQLite file ${file} cannot be read: ${describeError(error)}`)
  }
}
