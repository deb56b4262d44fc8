import { closeSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { Kysely, sql } from 'kysely'
import { migrate } from './migrations.ts'
import { NodeSqliteDialect } from './sqlite-dialect.ts'
import type { Tables } from './tables.ts'

const SQLITE = 'sqlite:'
const IN_MEMORY = ':memory:'
/** Another process may hold the write lock that long: a console that is being replaced. */
const BUSY_TIMEOUT_MS = 2000

/** Reading has a connection of its own: look-ups and beats must not queue behind a burst of changes. */
export interface Database {
  readonly writer: Kysely<Tables>
  readonly reader: Kysely<Tables>
  close(): Promise<void>
}

/**
 * The system of record, its schema up to date.
 * @param url `sqlite:FILE` or `sqlite::memory:`
 */
export async function openDatabase(url: string): Promise<Database> {
  const file = sqliteFileOf(url)
  const writer = connect(file)
  try {
    await migrate(writer)
    // A database in memory belongs to its one connection.
    const reader = file === IN_MEMORY ? writer : connect(file)
    // Kysely closes only what was used once.
    await sql`select 1`.execute(reader)
    return { writer, reader, close: () => closeAll(new Set([reader, writer])) }
  } catch (error) {
    await writer.destroy()
    throw error
  }
}

function connect(file: string): Kysely<Tables> {
  return new Kysely<Tables>({ dialect: new NodeSqliteDialect(openSqlite(file)) })
}

async function closeAll(connections: Iterable<Kysely<Tables>>): Promise<void> {
  for (const connection of connections) await connection.destroy()
}

/** The address may hold a password, so no message repeats it. */
function sqliteFileOf(url: string): string {
  if (/^postgres(?:ql)?:/.test(url)) {
    throw new Error('database.url: PostgreSQL is not supported yet; use sqlite:FILE')
  }
  if (!url.startsWith(SQLITE) || url.length === SQLITE.length) {
    throw new Error('database.url must be sqlite:FILE, such as sqlite:postern.db')
  }
  return url.slice(SQLITE.length)
}

function openSqlite(file: string): DatabaseSync {
  try {
    if (file !== IN_MEMORY) createPrivately(file)
    const database = new DatabaseSync(file, { enableForeignKeyConstraints: true, timeout: BUSY_TIMEOUT_MS })
    // FULL: a revocation that was answered must survive the machine losing power.
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
    return database
  } catch (cause) {
    throw new Error(`database.url: cannot open the SQLite file ${file}`, { cause })
  }
}

/** SQLite gives its side files the rights of the main one. An existing file keeps its own. */
function createPrivately(file: string): void {
  closeSync(openSync(file, 'a', 0o600))
}
