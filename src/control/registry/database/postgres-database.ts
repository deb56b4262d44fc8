import { Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import type { OnReload } from '../../../config/reloadable.ts'
import type { Database } from './database.ts'
import { DatabaseUnreachable } from './database-unreachable.ts'
import { migrate } from './migrations.ts'
import type { Tables } from './tables.ts'

/** What PostgreSQL has to give to a few consoles without a pooler in between. */
const MAX_WRITERS = 6
const MAX_READERS = 4
const CONNECT_TIMEOUT_MS = 3000
/** A statement of ours takes milliseconds; one that takes seconds waits for something that is not going to end. */
const STATEMENT_TIMEOUT_MS = 5000
/** The client's own, for a server that says nothing at all. */
const SILENCE_TIMEOUT_MS = 6000
const OLDEST_VERSION = 15
const BIGINT = pg.types.builtins.INT8

/** For more than one console: each holds a few connections, and all that must hold among them is done by locks. */
export async function openPostgres(url: string, onReload: OnReload<string>): Promise<Database> {
  await prepare(url)
  const timeouts = {
    statement_timeout: STATEMENT_TIMEOUT_MS,
    query_timeout: SILENCE_TIMEOUT_MS,
    idle_in_transaction_session_timeout: SILENCE_TIMEOUT_MS,
  }
  const writers = createPool(url, { max: MAX_WRITERS, ...timeouts })
  const readers = createPool(url, { max: MAX_READERS, ...timeouts })
  // Asked for with each connection that is made: those that there are live on.
  onReload(next => () => {
    for (const { options } of [writers, readers]) options.connectionString = next
  })
  const [writer, reader] = [kyselyOver(writers), kyselyOver(readers)]
  const close = async () => {
    await Promise.all([writer.destroy(), reader.destroy()])
  }
  return { dialect: 'postgres', writer, reader, close }
}

/** On a connection without timeouts: another console may be migrating, and this one waits for it. */
async function prepare(url: string): Promise<void> {
  const connection = kyselyOver(createPool(url, { max: 1 }))
  try {
    await requireVersion(connection)
    await migrate(connection, 'postgres')
  } finally {
    await connection.destroy()
  }
}

async function requireVersion(connection: Kysely<Tables>): Promise<void> {
  const version = await sql<{ number: string }>`select current_setting('server_version_num') as number`
    .execute(connection)
    .catch((error: unknown) => {
      // Not as its cause: errors of the driver carry what it was connecting with.
      throw new (isAway(error) ? DatabaseUnreachable : Error)(unreachableText(error))
    })
  const major = Math.floor(Number(version.rows[0]?.number) / 10_000)
  if (!(major >= OLDEST_VERSION)) {
    throw new Error(`database.url: this is PostgreSQL ${major}; the console needs ${OLDEST_VERSION} or newer`)
  }
}

function createPool(url: string, settings: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    application_name: 'postern-console',
    types: { getTypeParser },
    ...settings,
  })
  // A connection that breaks while nobody uses it is replaced at the next use, whose failure will be told.
  pool.on('error', () => {})
  // One that breaks within a transaction, between two statements: the next statement will be told.
  pool.on('connect', client => client.on('error', () => {}))
  return pool
}

function kyselyOver(pool: pg.Pool): Kysely<Tables> {
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
}

/** Times in ms and counts are exact in a number; the driver would give text. */
const getTypeParser: typeof pg.types.getTypeParser = (type: number, format?: 'text' | 'binary') =>
  type === BIGINT ? Number : pg.types.getTypeParser(type, format)

/** SQLSTATE classes of a server that is starting, stopping or full. Whatever else it answers is not going to change. */
const NOT_NOW = /^(?:08|53|57P)/
/** Codes of a network on which nobody answered. The driver's own time-outs have none. */
const NO_ANSWER: ReadonlySet<unknown> = new Set([
  undefined,
  'EAI_AGAIN',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
])

function isAway(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return NOT_NOW.test(error.code ?? '')
  return error instanceof Error && NO_ANSWER.has('code' in error ? error.code : undefined)
}

function unreachableText(error: unknown): string {
  return `database.url: PostgreSQL cannot be reached: ${reasonOf(error)}`
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown reason'
  // An address that is none is repeated by some errors, with the password in it.
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  if (code === 'ERR_INVALID_URL') return 'the address is malformed'
  return error.message || code || error.name
}
