import { once } from 'node:events'
import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { connect, isIP } from 'node:net'
import { dirname } from 'node:path'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import { type Kysely, sql } from 'kysely'
import pg from 'pg'
import type { Config } from '../config/schema/schema.ts'
import { COPIED_TABLES } from '../console/backup/write-database.ts'
import { DATABASE_SETTING, DatabaseUnreachable } from '../console/platform/database/database.ts'
import { missingMigrations } from '../console/platform/database/migrations.ts'
import { connectionConfig } from '../console/platform/database/postgres/connection.ts'
import { freeBytes, MIN_FREE_BYTES, sqliteFilePath } from '../console/platform/database/sqlite/database.ts'
import type { Tables } from '../console/platform/database/tables.ts'
import { openReadOnly, readDatabase } from '../console/platform/open-database.ts'
import { requireKnownSecret } from '../console/platform/signing-secrets.ts'
import { MIGRATIONS } from '../console/schema.ts'
import { fingerprintSecret } from '../domain/key/secret.ts'
import { expiryNote, peerExpiry } from './certificates.ts'
import { ANSWER_MS, type Check, CheckFailure, type Passed, readClock } from './finding.ts'

/** Reads only: a start of the console migrates the schema. */
export function databaseChecks({ database: { url }, keys }: Config): Check[] {
  const file = sqliteFilePath(url)
  return [
    {
      name: 'database',
      run: () => (file === null ? checkPostgres(url, keys) : checkSqlite(url, file, keys)),
    },
  ]
}

async function checkSqlite(url: string, file: string, keys: Config['keys']): Promise<Passed> {
  if (file === ':memory:') return { found: 'SQLite in memory: keys are lost when the console ends' }
  const found = await stat(file).catch(() => null)
  await requireWritable(dirname(file), `the folder of the SQLite file ${file}`)
  await requireSpace(dirname(file))
  if (found === null) return { found: `SQLite, no file ${file} yet: the console makes it` }
  await requireWritable(file, `the SQLite file ${file}`)
  const missing = await readDatabase(url, async database => {
    const missing = await missingMigrations(database, MIGRATIONS)
    await requireSigningSecret(database, missing, keys)
    return missing
  })
  return { found: `SQLite ${file}, ${describeSchema(missing)}` }
}

/** As the start of the console does, of a schema that it knows. */
async function requireSigningSecret(
  database: Kysely<Tables>,
  missing: readonly string[],
  { format, signingSecrets }: Config['keys'],
): Promise<void> {
  if (missing.length > 0 || format === 'opaque') return
  const own = signingSecrets.map(secret => fingerprintSecret(Buffer.from(secret, 'base64')))
  await requireKnownSecret(database, own, Date.now())
}

async function requireWritable(path: string, name: string): Promise<void> {
  await access(path, constants.R_OK | constants.W_OK).catch((error: NodeJS.ErrnoException) => {
    const advice = 'let the user of the console write there, or correct database.url'
    throw new CheckFailure(`${name} cannot be written (${error.code})`, advice)
  })
}

async function requireSpace(folder: string): Promise<void> {
  const free = await freeBytes(folder)
  if (free >= MIN_FREE_BYTES) return
  const found = `the disk of ${folder} has ${Math.floor(free / 1024)} KiB free`
  throw new CheckFailure(found, 'free or add space; on a full disk no key can be issued or revoked')
}

interface ServerState {
  readonly version: string
  readonly is_standby: boolean
  /** What the server, its database or the user sets: that of this session is always on. */
  readonly is_read_only: boolean
  readonly database: string
  readonly may_create: boolean | null
  readonly ms: number
}

async function checkPostgres(url: string, keys: Config['keys']): Promise<Passed> {
  const database = await openReadOnly(url).catch(explain)
  try {
    const sentAtMs = Date.now()
    const state = await readState(database)
    const clock = readClock('PostgreSQL', Number(state.ms), { sentAtMs, receivedAtMs: Date.now() })
    if (state.is_standby) {
      const advice =
        'database.url must lead to the primary: see docs/operate/postgresql.md, section "Failover"'
      throw new CheckFailure('this server is a standby, which accepts no writes', advice)
    }
    if (state.is_read_only) {
      const advice = 'turn it off for the server, the database and the user of database.url'
      throw new CheckFailure(
        'PostgreSQL accepts no changes, because default_transaction_read_only is on',
        advice,
      )
    }
    const missing = await missingMigrations(database, MIGRATIONS)
    if (missing.length > 0) requireCreate(state)
    await requireRights(database)
    await requireSigningSecret(database, missing, keys)
    const found = `PostgreSQL ${state.version}, database ${state.database}, ${describeSchema(missing)}`
    return { found: `${found}${expiryNote(await postgresExpiry(url))}`, clock }
  } finally {
    await database.destroy()
  }
}

/** Other errors say what to do. */
function explain(error: unknown): never {
  if (!(error instanceof DatabaseUnreachable)) throw error
  const advice =
    'check that PostgreSQL runs, that host and port of database.url are right, and that the network lets the connection pass'
  throw new CheckFailure(error.message, advice)
}

async function readState(database: Kysely<Tables>): Promise<ServerState> {
  const { rows } = await sql<ServerState>`
    select current_setting('server_version') as version, pg_is_in_recovery() as is_standby,
      (select reset_val = 'on' from pg_settings where name = 'default_transaction_read_only') as is_read_only,
      current_database() as database, has_schema_privilege(current_schema(), 'create') as may_create,
      extract(epoch from clock_timestamp()) * 1000 as ms`.execute(database)
  const [state] = rows
  if (state === undefined) throw new CheckFailure('PostgreSQL does not say its state', null)
  return state
}

function requireCreate({ may_create, database }: ServerState): void {
  if (may_create === true) return
  const found =
    may_create === null
      ? `no schema of the search path exists in the database ${database}`
      : 'the user may not create tables, which the next start of the console does'
  throw new CheckFailure(found, 'GRANT USAGE, CREATE ON SCHEMA … TO the user of database.url')
}

/** Of a user that does not own the tables. */
async function requireRights(database: Kysely<Tables>): Promise<void> {
  const { rows } = await sql<{ name: string }>`
    select relname as name from pg_class
    where relnamespace = to_regnamespace(current_schema()) and relkind in ('r', 'p')
      and relname in (${sql.join(COPIED_TABLES.map(({ table }) => table))})
      and not (has_table_privilege(oid, 'select') and has_table_privilege(oid, 'insert')
        and has_table_privilege(oid, 'update') and has_table_privilege(oid, 'delete'))
    order by relname`.execute(database)
  if (rows.length === 0) return
  const found = `the user lacks rights on the tables ${rows.map(({ name }) => name).join(', ')}`
  throw new CheckFailure(found, 'GRANT SELECT, INSERT, UPDATE, DELETE on them to the user of database.url')
}

function describeSchema(missing: readonly string[]): string {
  if (missing.length === 0) return 'schema up to date'
  return `the next start of the console migrates the schema (${missing.join(', ')})`
}

/** Asks for TLS (PostgreSQL, "Message Formats", SSLRequest): its length and its code. */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])
const ACCEPTED = 'S'.charCodeAt(0)

/** Of a client of the driver, whose types say less of `ssl`. */
interface Reached {
  readonly host: string
  readonly port: number
  readonly ssl: boolean | ConnectionOptions
}

/**
 * The driver shows no certificate, so this is a connection of its own, which ends before it names a user. It verifies what the
 * driver verifies.
 * @returns when the certificate expires, in milliseconds since the epoch; null without TLS, or if the server breaks off
 */
async function postgresExpiry(url: string): Promise<number | null> {
  const config = connectionConfig(url, DATABASE_SETTING)
  // Knows the variables that complete the address, such as PGSSLMODE.
  const { host, port, ssl }: Reached = new pg.Client(config)
  if (!ssl) return null
  const signal = AbortSignal.timeout(ANSWER_MS)
  const socket = connect(port, host).on('error', () => {})
  try {
    socket.write(SSL_REQUEST)
    const [answer]: Buffer[] = await once(socket, 'data', { signal })
    if (answer?.[0] !== ACCEPTED) return null
    const options = typeof ssl === 'object' ? ssl : {}
    const name = isIP(host) === 0 ? { servername: host } : {}
    const secure = connectTls({ ...options, ...name, socket }).on('error', () => {})
    await once(secure, 'secureConnect', { signal })
    return peerExpiry(secure)
  } catch {
    // The check of the database has succeeded, so a date is all that is missing.
    return null
  } finally {
    socket.destroy()
  }
}
