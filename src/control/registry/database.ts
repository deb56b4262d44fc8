import { closeSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import { migrate } from './migrations.ts'
import { NodeSqliteDialect } from './sqlite-dialect.ts'
import type { Tables } from './tables.ts'

const SQLITE = 'sqlite:'
const IN_MEMORY = ':memory:'
/** Another process may hold the write lock that long: a console that is being replaced. */
const BUSY_TIMEOUT_MS = 2000

/**
 * The system of record, its schema up to date.
 * @param url `sqlite:FILE` or `sqlite::memory:`
 */
export async function openDatabase(url: string): Promise<Kysely<Tables>> {
  const database = new Kysely<Tables>({ dialect: new NodeSqliteDialect(openSqlite(sqliteFileOf(url))) })
  try {
    await migrate(database)
    return database
  } catch (error) {
    await database.destroy()
    throw error
  }
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
