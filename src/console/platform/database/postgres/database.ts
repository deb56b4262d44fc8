import { Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import type { OnReload } from '../../../../config/reloadable.ts'
import { SettingError, StartError } from '../../../../domain/errors.ts'
import {
  type ChangeWriter,
  DATABASE_SETTING,
  type Database,
  DatabaseForbidden,
  DatabaseUnreachable,
  type RunWork,
} from '../database.ts'
import {
  type DatabaseUnavailable,
  findTrouble,
  mayRunAgain,
  type ReportTrouble,
} from '../database-unavailable.ts'
import { type Migrations, migrate } from '../migrations.ts'
import type { Tables } from '../tables.ts'
import { connectionConfig } from './connection.ts'
import { isConnectionLost, isForbidden } from './errors.ts'
import { type Failovers, guardPool, type SessionRules } from './pool.ts'

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

/** Compiling a statement takes up to 0.7 s, and is done where its cost is overestimated; ours take milliseconds. */
const SETTINGS = { jit: 'off' }
const LIMITED_SETTINGS = {
  ...SETTINGS,
  statement_timeout: STATEMENT_TIMEOUT_MS,
  idle_in_transaction_session_timeout: NO_RESPONSE_TIMEOUT_MS,
}
const WRITES: SessionRules = { settings: LIMITED_SETTINGS, use: 'write' }
const READS: SessionRules = { settings: LIMITED_SETTINGS, use: 'read' }

/** Supports several consoles: each holds a few connections, and locks in the database coordinate them. */
export async function openPostgres(
  url: string,
  migrations: Migrations,
  { onReload, report }: { readonly onReload: OnReload<string>; readonly report: ReportTrouble },
): Promise<Database> {
  const rules = { settings: SETTINGS, use: 'write' } as const
  const one = { name: DATABASE_SETTING, applicationName: CONSOLE_NAME, rules }
  const hasTextIndex = await prepare(url, migrations, one)
  const address = { name: DATABASE_SETTING, url, connection: connectionConfig(url, DATABASE_SETTING) }
  // Applies to new connections; open ones stay.
  onReload(next => {
    const connection = connectionConfig(next, DATABASE_SETTING)
    return () => Object.assign(address, { url: next, connection })
  })
  const shared = { failovers: { count: 0 }, report }
  const limits = { query_timeout: NO_RESPONSE_TIMEOUT_MS }
  const writer = connectTo(address, { max: MAX_WRITERS, ...limits }, { rules: WRITES, ...shared })
  const reader = connectTo(address, { max: MAX_READERS, ...limits }, { rules: READS, ...shared })
  const announcing = connectTo(address, { max: MAX_ANNOUNCING, ...limits }, { rules: WRITES, ...shared })
  const close = async () => {
    await Promise.all([writer.destroy(), reader.destroy(), announcing.destroy()])
  }
  const changes = createConcurrentWriter({ writer, announcing })
  return { dialect: 'postgres', hasTextIndex, writer, changes, reader, announcing, close }
}

/** PostgreSQL runs transactions concurrently. */
export function createConcurrentWriter({
  writer,
  announcing,
}: Pick<Database, 'writer' | 'announcing'>): ChangeWriter {
  const announce = runAgainAfterFailover(announcing)
  return { run: runAgainAfterFailover(writer), announce, announceWithNext: announce }
}

/**
 * Runs a transaction again, once, whose server went away before it committed: after a failover another one answers. Where the answer to a
 * commit was lost, a second run might change something twice.
 */
function runAgainAfterFailover(connections: Kysely<Tables>): RunWork {
  return async work => {
    // Explicit: under another server default, concurrent changes would fail instead of waiting.
    const run = () => connections.transaction().setIsolationLevel('read committed').execute(work)
    try {
      return await run()
    } catch (error) {
      if (!mayRunAgain(findTrouble(error))) throw error
      return run()
    }
  }
}

export interface ReadOnlyOptions {
  /** Of the setting or argument. */
  readonly name: string
  /** Refuses a pooler, behind which running consoles cannot be seen. */
  readonly seesConsoles: boolean
}

/** One connection that the server lets write nothing, also to a standby. A long read is not cut off. */
export async function openPostgresReadOnly(
  url: string,
  { name, seesConsoles }: ReadOnlyOptions,
): Promise<Kysely<Tables>> {
  const rules = { settings: SETTINGS, use: 'any', ...(seesConsoles ? seeingConsoles(name) : {}) } as const
  const connection = connectOnce(url, { name, applicationName: 'postern-audit', rules })
  try {
    await requireVersion(connection, name)
    return connection
  } catch (error) {
    await connection.destroy()
    throw error
  }
}

/** One connection without timeouts to a migrated database, and to the server itself: a copy takes long. */
export async function openPostgresForCopy(
  url: string,
  migrations: Migrations,
  name = DATABASE_SETTING,
): Promise<Kysely<Tables>> {
  const rules = { settings: SETTINGS, use: 'write', ...seeingConsoles(name) } as const
  const one = { name, applicationName: COPY_NAME, rules }
  await prepare(url, migrations, one)
  return connectOnce(url, one)
}

/** A pooler keeps the names of sessions that ended, and gives those of others to sessions that are used. */
function seeingConsoles(name: string): Pick<SessionRules, 'refusesPooler'> {
  const refusesPooler = `${name}: a pooler is between here and PostgreSQL, behind which running consoles cannot be seen. Give the address of the server`
  return { refusesPooler }
}

/** How many other connections of consoles the database has. */
export async function countConsoles(connection: Kysely<Tables>): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from pg_stat_activity
    where datname = current_database() and application_name = ${CONSOLE_NAME}`.execute(connection)
  return Number(rows[0]?.count)
}

interface OneConnection {
  /** Of the setting or argument. */
  readonly name: string
  readonly applicationName: string
  readonly rules: SessionRules
}

/**
 * On a connection without timeouts: another console may be migrating, and this one must wait.
 * @returns whether there is an index for parts of texts: the server may refuse its extension
 */
async function prepare(url: string, migrations: Migrations, one: OneConnection): Promise<boolean> {
  const connection = connectOnce(url, one)
  try {
    await requireVersion(connection, one.name)
    await migrate(connection, 'postgres', migrations)
    return await hasIndex(connection, 'keys_by_text')
  } catch (error) {
    // A migration that broke off is rolled back.
    throw isConnectionLost(error) ? unreachable(error, one.name) : error
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
  if (major >= OLDEST_VERSION) return
  throw new SettingError(`${name}: this is PostgreSQL ${major}; the console needs ${OLDEST_VERSION} or newer`)
}

/** Where to connect, which a reload may change. */
interface Address {
  readonly name: string
  url: string
  connection: pg.ClientConfig
}

function connectOnce(url: string, { name, applicationName, rules }: OneConnection): Kysely<Tables> {
  const address = { name, url, connection: connectionConfig(url, name) }
  const settings = { max: 1, application_name: applicationName }
  return connectTo(address, settings, { rules, failovers: { count: 0 }, report: () => {} })
}

interface Guard {
  readonly rules: SessionRules
  readonly failovers: Failovers
  readonly report: ReportTrouble
}

function connectTo(address: Address, settings: pg.PoolConfig, guard: Guard): Kysely<Tables> {
  const common = {
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    application_name: CONSOLE_NAME,
    types: { getTypeParser },
    ...settings,
  }
  class SessionClient extends pg.Client {
    constructor() {
      super({ ...common, ...freshConnection(address) })
    }
  }
  const pool = new pg.Pool({ ...common, Client: SessionClient })
  // An idle connection that breaks is replaced at the next use.
  pool.on('error', () => {})
  // One that breaks inside a transaction fails the next statement.
  pool.on('connect', client => client.on('error', () => {}))
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool: guardPool(pool, guard) }) })
}

/** Reads certificates anew, which may have been renewed; keeps the last good ones while an operator replaces them. */
function freshConnection(address: Address): pg.ClientConfig {
  try {
    address.connection = connectionConfig(address.url, address.name)
  } catch (error) {
    if (!(error instanceof StartError)) throw error
  }
  return address.connection
}

/** Times in ms and counts fit a number; the driver would return text. */
const getTypeParser: typeof pg.types.getTypeParser = (type: number, format?: 'text' | 'binary') =>
  type === BIGINT ? Number : pg.types.getTypeParser(type, format)

/** @returns for a mistake of ours the error itself */
function unreachable(error: unknown, name: string): unknown {
  const trouble = findTrouble(error)
  if (trouble === null) return error
  const advice = adviceFor(trouble)
  const text = `${name}: cannot reach PostgreSQL: ${trouble.reason}${advice === null ? '' : `. ${advice}`}`
  if (isConnectionLost(error)) return new DatabaseUnreachable(text)
  return isForbidden(trouble) ? new DatabaseForbidden(text) : new SettingError(text)
}

/** What to do about a connection that is not admitted, by what the server, the driver or OpenSSL says. The first that fits counts. */
const ADVICE: readonly (readonly [says: RegExp, advice: string])[] = [
  [
    /The server does not support SSL connections/,
    'Turn on TLS at the server, or set sslmode=disable, which sends everything unencrypted',
  ],
  [
    /, no encryption\b|SSL required|SSL (?:connection )?is required/i,
    'The server may admit only TLS: set sslmode=verify-full, and sslrootcert unless its CA is a public one',
  ],
  [/no pg_hba\.conf entry/i, 'Add a line for this user, database and address to pg_hba.conf'],
  [
    /self[- ]signed|unable to (?:verify|get) (?:the |local )?(?:first |issuer )?certificate|unable to get issuer/i,
    'The certificate is not of a known CA: set sslrootcert to the file of the CA',
  ],
  [
    /altnames|does not match certificate/i,
    'The certificate is for another name: use a name that it has, or sslmode=verify-ca',
  ],
  [/certificate has expired/i, 'Renew the certificate of the server'],
  [
    /unsupported startup parameter(?:: options| in options)|command-line options/i,
    'A pooler refuses the parameter options: set it for the user (ALTER ROLE … SET …)',
  ],
  [
    /configuration parameter|invalid value for parameter|command-line argument/i,
    'Correct the parameter options',
  ],
  [/statement pooling mode/i, 'The pooler splits transactions: set its pool_mode to transaction or session'],
  [/database "[^"]*" does not exist|no such database/i, 'Create the database, or correct its name'],
  [
    /authentication failed|auth failed|role "[^"]*" does not exist|no such user|password must be a /i,
    'Correct the user or the password',
  ],
]

/** @returns null if the reason says enough */
export function adviceFor({ reason }: DatabaseUnavailable): string | null {
  return ADVICE.find(([says]) => says.test(reason))?.[1] ?? null
}
