import { closeSync, existsSync, openSync, realpathSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Kysely, sql } from 'kysely'
import { StartError } from '../../../../domain/start-error.ts'
import { createSerialWriter } from '../change-writer.ts'
import { DATABASE_SETTING, type Database } from '../database.ts'
import type { ReportTrouble } from '../database-unavailable.ts'
import { type Migrations, migrate } from '../migrations.ts'
import type { Tables } from '../tables.ts'
import { NodeSqliteDialect } from './dialect.ts'

const IN_MEMORY = ':memory:'
/** While opening; later waits must not block the process. */
const OPENING_TIMEOUT_MS = 2000

export async function openSqlite(
  file: string,
  migrations: Migrations,
  report: ReportTrouble,
): Promise<Database> {
  const writer = connect(file, report)
  try {
    await migrate(writer, 'sqlite', migrations)
    // A database in memory belongs to one connection.
    const [reader, announcing] =
      file === IN_MEMORY ? [writer, writer] : [connect(file, report), connect(file, report)]
    // Kysely closes only connections that were used.
    for (const connection of [reader, announcing]) await sql`select 1`.execute(connection)
    return {
      dialect: 'sqlite',
      hasTextIndex: true,
      writer,
      changes: createSerialWriter(writer),
      reader,
      // A connection of its own: heartbeats must not wait behind reads.
      announcing,
      close: () => closeAll(new Set([announcing, reader, writer])),
    }
  } catch (error) {
    await writer.destroy()
    throw error
  }
}

function connect(file: string, report: ReportTrouble): Kysely<Tables> {
  return new Kysely<Tables>({ dialect: new NodeSqliteDialect(openFile(file), report) })
}

async function closeAll(connections: Iterable<Kysely<Tables>>): Promise<void> {
  for (const connection of connections) await connection.destroy()
}

function openFile(file: string): DatabaseSync {
  try {
    if (file !== IN_MEMORY) createPrivateFile(file)
    const database = new DatabaseSync(file, {
      enableForeignKeyConstraints: true,
      timeout: OPENING_TIMEOUT_MS,
    })
    // FULL: an answered revocation must survive a power failure.
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 0')
    database.function('fold', { deterministic: true }, text => String(text).toLowerCase())
    return database
  } catch (cause) {
    throw new Error(`database.url: cannot open the SQLite file ${file}`, { cause })
  }
}

/** SQLite copies the main file's mode to its side files. An existing file keeps its mode. */
export function createPrivateFile(file: string): void {
  closeSync(openSync(file, 'a', 0o600))
}

/** A console that is being replaced may take this long to close. */
const WAIT_MS = 2000
/** https://www.sqlite.org/rescode.html#busy */
const SQLITE_BUSY = 5

/**
 * Refuses a second console on one SQLite file: both would announce changes and deliver webhooks. The lock is one of the
 * operating system, taken through SQLite, so it ends with the process, also if that is killed. It is on a file of its own:
 * backups and `postern audit verify` can still read the database. File systems without locks, such as some NFS, have none.
 * @param url `database.url`; anything but a SQLite file needs no lock
 * @param name of the setting or argument
 * @returns releases it
 */
export function lockSqliteFile(url: string, name = DATABASE_SETTING): () => void {
  const file = /^sqlite:(.+)$/s.exec(url)?.[1]
  if (file === undefined || file === IN_MEMORY) return () => {}
  const release = lockWithin(WAIT_MS, file, name)
  if (release === null) throw new StartError(inUseText(file, name))
  return release
}

/** Whether a process holds the lock of this file. */
export function isLockedSqliteFile(file: string): boolean {
  const release = lockWithin(0, file)
  release?.()
  return release === null
}

/** @returns releases the lock; null if another process holds it all the time */
function lockWithin(timeoutMs: number, file: string, name = DATABASE_SETTING): (() => void) | null {
  const lock = openLock(file, timeoutMs, name)
  try {
    lock.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    lock.close()
    if (isBusy(error)) return null
    throw error
  }
  return () => lock.close()
}

function openLock(file: string, timeoutMs: number, name: string): DatabaseSync {
  try {
    const path = `${resolvePath(file)}-lock`
    createPrivateFile(path)
    return new DatabaseSync(path, { timeout: timeoutMs })
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new StartError(`${name}: cannot open the lock of the SQLite file ${file}: ${reason}`)
  }
}

/** Another path to the same file, such as a symbolic link, has the same lock. */
function resolvePath(file: string): string {
  return existsSync(file) ? realpathSync(file) : join(realpathSync(dirname(file)), basename(file))
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY
}

function inUseText(file: string, name: string): string {
  return (
    `${name}: another console uses the SQLite file ${file}. Stop it first, ` +
    'or use PostgreSQL (database.url: postgres://…), which several consoles can share'
  )
}
