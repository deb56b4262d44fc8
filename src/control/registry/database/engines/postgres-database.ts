import { Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import type { OnReload } from '../../../../config/reloadable.ts'
import { StartError } from '../../../../domain/start-error.ts'
import { UNSIGNED_AUDIT } from '../audit/audit-mac.ts'
import { DATABASE_SETTING, type Database, DatabaseForbidden, DatabaseUnreachable } from '../database.ts'
import { type ReportTrouble, troubleOf } from '../database-unavailable.ts'
import { migrate } from '../migrations/migrations.ts'
import type { Tables } from '../tables.ts'
import { guardPool } from './postgres-pool.ts'
import { isConnectionLost, isForbidden } from './rejected-statement.ts'

/** Small enough for several consoles on one PostgreSQL without a pooler. */
const MAX_WRITERS = 4
const MAX_READERS = 4
const MAX_ANNOUNCING = 2
const CONNECT_TIMEOUT_MS = 3000
/** Our statements take milliseconds; one that takes seconds is blocked. */
const STATEMENT_TIMEOUT_MS = 5000
/** Client side, for a server that does not respond. */
const NO_RESPONSE_TIMEOUT_MS = 6000
const OLDEST_VERSION = 15
/** Consoles are recognised by it. */
const CONSOLE_NAME = 'postern-console'
const COPY_NAME = 'postern-database'
const BIGINT = pg.types.builtins.INT8

/** Supports several consoles: each holds a few connections, and locks in the database coordinate them. */
export async function openPostgres(
  url: string,
  onReload: OnReload<string>,
  report: ReportTrouble,
): Promise<Database> {
  const hasTextIndex = await prepare(url)
  const timeouts = {
    statement_timeout: STATEMENT_TIMEOUT_MS,
    query_timeout: NO_RESPONSE_TIMEOUT_MS,
    idle_in_transaction_session_timeout: NO_RESPONSE_TIMEOUT_MS,
  }
  const writers = createPool(url, { max: MAX_WRITERS, ...timeouts })
  const readers = createPool(url, { max: MAX_READERS, ...timeouts })
  const announcers = createPool(url, { max: MAX_ANNOUNCING, ...timeouts })
  // Applies to new connections; open ones stay.
  onReload(next => () => {
    for (const { options } of [writers, readers, announcers]) options.connectionString = next
  })
  const [writer, reader, announcing] = [
    kyselyOver(writers, report),
    kyselyOver(readers, report),
    kyselyOver(announcers, report),
  ]
  const close = async () => {
    await Promise.all([writer.destroy(), reader.destroy(), announcing.destroy()])
  }
  return { dialect: 'postgres', hasTextIndex, audit: UNSIGNED_AUDIT, writer, reader, announcing, close }
}

/** One connection that the server lets write nothing. A long read is not cut off. */
export async function openPostgresReadOnly(url: string, name: string): Promise<Kysely<Tables>> {
  const options = '-c default_transaction_read_only=on'
  const connection = kyselyOver(createPool(url, { max: 1, options, application_name: 'postern-audit' }))
  try {
    await requireVersion(connection, name)
    return connection
  } catch (error) {
    await connection.destroy()
    throw error
  }
}

/** One connection without timeouts to a migrated database: a copy takes long. */
export async function openPostgresForCopy(url: string, name = DATABASE_SETTING): Promise<Kysely<Tables>> {
  await prepare(url, COPY_NAME, name)
  return kyselyOver(createPool(url, { max: 1, application_name: COPY_NAME }))
}

/** How many other connections of consoles the database has. */
export async function countConsoles(connection: Kysely<Tables>): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from pg_stat_activity
    where datname = current_database() and application_name = ${CONSOLE_NAME}`.execute(connection)
  return Number(rows[0]?.count)
}

/**
 * On a connection without timeouts: another console may be migrating, and this one must wait.
 * @returns whether there is an index for parts of texts: the server may refuse its extension
 */
async function prepare(
  url: string,
  applicationName = CONSOLE_NAME,
  name = DATABASE_SETTING,
): Promise<boolean> {
  const connection = kyselyOver(createPool(url, { max: 1, application_name: applicationName }))
  try {
    await requireVersion(connection, name)
    await migrate(connection, 'postgres')
    return await hasIndex(connection, 'keys_by_text')
  } catch (error) {
    // A migration that broke off is rolled back.
    throw isConnectionLost(error) ? unreachable(error, name) : error
  } finally {
    await connection.destroy()
  }
}

async function hasIndex(connection: Kysely<Tables>, name: string): Promise<boolean> {
  const { rows } = await sql<{ exists: boolean }>`select to_regclass(${name}) is not null as exists`.execute(
    connection,
  )
  return rows[0]?.exists === true
}

async function requireVersion(connection: Kysely<Tables>, name: string): Promise<void> {
  const version = await sql<{ number: string }>`select current_setting('server_version_num') as number`
    .execute(connection)
    .catch((error: unknown) => {
      throw unreachable(error, name)
    })
  const major = Math.floor(Number(version.rows[0]?.number) / 10_000)
  if (!(major >= OLDEST_VERSION)) {
    throw new StartError(`${name}: this is PostgreSQL ${major}; the console needs ${OLDEST_VERSION} or newer`)
  }
}

function createPool(url: string, settings: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    application_name: CONSOLE_NAME,
    types: { getTypeParser },
    ...settings,
  })
  // An idle connection that breaks is replaced at the next use.
  pool.on('error', () => {})
  // One that breaks inside a transaction fails the next statement.
  pool.on('connect', client => client.on('error', () => {}))
  return pool
}

function kyselyOver(pool: pg.Pool, report: ReportTrouble = () => {}): Kysely<Tables> {
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool: guardPool(pool, report) }) })
}

/** Times in ms and counts fit a number; the driver would return text. */
const getTypeParser: typeof pg.types.getTypeParser = (type: number, format?: 'text' | 'binary') =>
  type === BIGINT ? Number : pg.types.getTypeParser(type, format)

/** @returns for a mistake of ours the error itself */
function unreachable(error: unknown, name: string): unknown {
  const trouble = troubleOf(error)
  if (trouble === null) return error
  const text = `${name}: cannot reach PostgreSQL: ${trouble.reason}`
  if (isConnectionLost(error)) return new DatabaseUnreachable(text)
  return isForbidden(trouble) ? new DatabaseForbidden(text) : new StartError(text)
}
