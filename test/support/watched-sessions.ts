import { type Kysely, sql } from 'kysely'
import pg from 'pg'
import { onTestFinished } from 'vitest'
import type { Tables } from '../../src/console/platform/database/tables.ts'
import { openDatabase } from './open-database.ts'
import { until } from './until.ts'

export type Connection = Kysely<Tables>

/** Of a console. */
export const POOLS = ['writer', 'reader', 'announcing'] as const

const CHANGE = {
  ...{ digest: 'a'.repeat(64), region: 'made-up', version: 1, at_ms: 1 },
  ...{ claimed_by: '', claimed_until_ms: 0 },
}

/**
 * Opens a database as a console does, beside the session of an operator, who sees and ends those of the console.
 * @param direct the address of a database with the schema
 * @param url of the same database, such as that of a pooler
 */
export async function openWatched(direct: string, url = direct) {
  const admin = new pg.Client({ connectionString: direct, application_name: 'operator' })
  admin.on('error', () => {})
  await admin.connect()
  onTestFinished(() => admin.end())
  const reported: string[] = []
  const database = await openDatabase(url, { report: kind => void reported.push(kind) })
  onTestFinished(() => database.close())
  const query = async (text: string) => (await admin.query(text)).rows
  const sessions = async () => {
    const rows = await query(`select pid from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`)
    return rows.map(({ pid }) => Number(pid))
  }
  const untilGone = (pid: number) => until('it has ended', async () => !(await sessions()).includes(pid))
  const end = async (pid: number) => {
    await query(`select pg_terminate_backend(${pid})`)
    await untilGone(pid)
  }
  return { ...database, direct, name: admin.database, reported, query, sessions, untilGone, end }
}

/** What an expression of PostgreSQL is on this connection. */
export async function readValue<Value>(
  connection: Connection,
  expression: string,
): Promise<Value | undefined> {
  const { rows } = await sql<{ value: Value }>`select ${sql.raw(expression)} as value`.execute(connection)
  return rows[0]?.value
}

/** Identifies the session. */
export const pidOf = (connection: Connection) => readValue<number>(connection, 'pg_backend_pid()')

/** Takes a session out of its pool while `use` runs. */
export function hold(
  connection: Connection,
  use: (session: Connection, pid: number) => Promise<void>,
): Promise<void> {
  return connection.connection().execute(async session => use(session, (await pidOf(session)) ?? 0))
}

/** Writes one row, which `countChanges` counts. */
export async function insertChange(connection: Connection): Promise<void> {
  await connection.insertInto('outbox').values(CHANGE).execute()
}

export function countChanges(connection: Connection): Promise<number | undefined> {
  return readValue<number>(connection, '(select count(*) from outbox)')
}
