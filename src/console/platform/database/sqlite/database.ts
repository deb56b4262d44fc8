import { closeSync, existsSync, openSync, realpathSync } from 'node:fs'
import { open, stat, statfs } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { backup, DatabaseSync } from 'node:sqlite'
import { Kysely, sql } from 'kysely'
import { errorCode, SettingError, StartError } from '../../../../domain/errors.ts'
import { describeError } from '../../../../observability/control-logger.ts'
import {
  type ChangeWriter,
  DATABASE_SETTING,
  type Database,
  type ProgressDisplay,
  Refused,
  type RunWork,
  type Work,
} from '../database.ts'
import { findTrouble, type ReportTrouble } from '../database-unavailable.ts'
import { type Migrations, migrate } from '../migrations.ts'
import type { Tables } from '../tables.ts'
import { NodeSqliteDialect, primaryResultCode } from './dialect.ts'

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

/** SQLite runs one transaction at a time. */
export function createSerialWriter(writer: Kysely<Tables>): ChangeWriter {
  const waiting = new Set<Work<void>>()
  const run: RunWork = async work => {
    let done: Work<void>[] = []
    const result = await writer.transaction().execute(async tx => {
      done = [...waiting]
      for (const other of done) await other(tx)
      return work(tx)
    })
    // After the commit: if it fails, the next transaction does the work.
    for (const other of done) waiting.delete(other)
    return result
  }
  return {
    run,
    announce: run,
    async announceWithNext(work) {
      waiting.add(work)
      await run(async () => {}).finally(() => waiting.delete(work))
    },
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
    throw openingError(DATABASE_SETTING, `the SQLite file ${file}`, cause)
  }
}

/** Codes of SQLite (https://www.sqlite.org/rescode.html) for a file that it cannot open, and for one of another program. */
const SQLITE_WRONG_FILE: ReadonlySet<number> = new Set([14, 26])
const WRONG_PATH: ReadonlySet<string | null> = new Set([
  'ENOENT',
  'ENOTDIR',
  'EISDIR',
  'EACCES',
  'EPERM',
  'EROFS',
])

/** @returns a mistake in the setting if no wait cures it, such as a folder that does not exist */
function openingError(name: string, what: string, cause: unknown): StartError {
  const text = `${name}: cannot open ${what}: ${describeError(cause)}`
  const isWrong = WRONG_PATH.has(errorCode(cause)) || SQLITE_WRONG_FILE.has(primaryResultCode(cause))
  return name === DATABASE_SETTING && isWrong ? new SettingError(text) : new StartError(text)
}

/** SQLite copies the main file's mode to its side files. An existing file keeps its mode. */
function createPrivateFile(file: string): void {
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
  const file = sqliteFilePath(url)
  if (file === null || file === IN_MEMORY) return () => {}
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
    throw openingError(name, `the lock of the SQLite file ${file}`, cause)
  }
}

/** Another path to the same file, such as a symbolic link, has the same lock. */
function resolvePath(file: string): string {
  return existsSync(file) ? realpathSync(file) : join(realpathSync(dirname(file)), basename(file))
}

function isBusy(error: unknown): boolean {
  return primaryResultCode(error) === SQLITE_BUSY
}

function inUseText(file: string, name: string): string {
  return (
    `${name}: another console uses the SQLite file ${file}. Stop it first, ` +
    'or use PostgreSQL (database.url: postgres://…), which several consoles can share'
  )
}

/** The first bytes of every SQLite file, and of an archive of `pg_dump --format=custom`. */
const SQLITE_MAGIC = 'SQLite format 3\0'
const DUMP_MAGIC = 'PGDMP'
/** 2 MiB of pages of 4 KiB: progress is reported between steps. */
const PAGES_AT_ONCE = 512
const BUSY_TIMEOUT_MS = 2000
/** Of every error of SQLite; its message says which. */
const SQLITE_ERROR = 'ERR_SQLITE_ERROR'

/** @returns the path of `sqlite:FILE`; null for another address */
export function sqliteFilePath(url: string): string | null {
  return /^sqlite:(.+)$/s.exec(url)?.[1] ?? null
}

/** The log beside the file grows to about 4 MiB before SQLite writes it back. */
export const MIN_FREE_BYTES = 8 * 1024 ** 2

export async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}

/** Whether the disk of a SQLite file is full, or soon will be. SQLite still writes to the log beside the file as far as it had grown. */
export async function isLowOnSpace(url: string): Promise<boolean> {
  const file = sqliteFilePath(url)
  return file !== null && file !== IN_MEMORY && (await freeBytes(dirname(file))) < MIN_FREE_BYTES
}

/**
 * @param name of the file in messages
 * @throws Refused unless the file is a SQLite database
 */
export async function requireSqliteFile(file: string, name = file): Promise<void> {
  const start = await readStart(file, name)
  if (start === SQLITE_MAGIC) return
  if (start.startsWith(DUMP_MAGIC)) {
    throw new Refused(
      `${name} is an archive of pg_dump. Restore it with pg_restore: see docs/operate/backup.md, section ` +
        '"With the tools of PostgreSQL"',
    )
  }
  throw new Refused(start === '' ? `${name} is empty` : `${name} is not a SQLite database`)
}

async function readStart(file: string, name: string): Promise<string> {
  try {
    const handle = await open(file)
    try {
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(SQLITE_MAGIC.length), 0)
      return buffer.toString('latin1', 0, bytesRead)
    } finally {
      await handle.close()
    }
  } catch (error) {
    throw new Refused(`${name} cannot be read: ${describeFileError(error)}`)
  }
}

const FILE_ERRORS: Readonly<Record<string, string>> = {
  ENOENT: 'it does not exist, or its folder does not',
  ENOTDIR: 'a part of its path is not a folder',
  EISDIR: 'it is a folder',
  EACCES: 'this user has no permission',
  EPERM: 'this user has no permission',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
}

function describeFileError(error: unknown): string {
  const code = codeOrMessage(error)
  const meaning = FILE_ERRORS[code]
  return meaning === undefined ? code : `${code}, ${meaning}`
}

/** Copies a SQLite file page by page, beside a console that writes to it. The copy is as of one moment. */
export async function copyPages(from: string, to: string, progress: ProgressDisplay): Promise<void> {
  const source = new DatabaseSync(from, { readOnly: true, timeout: BUSY_TIMEOUT_MS })
  try {
    // An open read holds the snapshot: without it, each change of the console would start the copy again.
    source.exec('begin; select 1 from sqlite_schema')
    createPrivateFile(to)
    await backup(source, to, {
      rate: PAGES_AT_ONCE,
      progress: ({ totalPages, remainingPages }) =>
        progress.show(totalPages - remainingPages, totalPages, 'pages copied'),
    })
  } finally {
    source.close()
  }
}

/**
 * @param name of the file in messages
 * @throws Refused for a damaged file
 */
export function checkIntegrity(file: string, name = file, readOnly = false): void {
  const problems = inspect(file, readOnly)
  if (problems.length > 0) throw new Refused(`The database ${name} is damaged: ${problems.join('; ')}`)
}

function inspect(file: string, readOnly: boolean): string[] {
  const database = new DatabaseSync(file, { readOnly, timeout: BUSY_TIMEOUT_MS })
  try {
    // The schema is not checked yet.
    database.exec('pragma trusted_schema = off; pragma cell_size_check = on')
    const found = database
      .prepare('pragma integrity_check(5)')
      .all()
      .map(row => String(row['integrity_check']))
    return found.length === 1 && found[0] === 'ok' ? [] : found
  } catch (error) {
    return [describeError(error)]
  } finally {
    database.close()
  }
}

/** Moves what is in the write-ahead log into the file, and removes the log: the file is complete in itself. */
export function makeSingleFile(file: string): void {
  const database = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS })
  try {
    database.exec('pragma journal_mode = delete')
  } finally {
    database.close()
  }
}

/** @throws Refused for a folder */
export async function isEmptyOrMissing(file: string): Promise<boolean> {
  if (!existsSync(file)) return true
  const found = await stat(file)
  if (found.isDirectory()) throw new Refused(`${file} is a folder: name a file in it`)
  return found.size === 0
}

export function codeOrMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return 'code' in error && typeof error.code === 'string' && error.code !== SQLITE_ERROR
    ? error.code
    : error.message
}

/** A full disk, a missing folder or right: of the file system or of SQLite. @returns null for any other error */
export function diskTroubleIn(error: unknown): string | null {
  const trouble = findTrouble(error)
  if (trouble !== null) return trouble.reason
  if (!(error instanceof Error)) return null
  const isOurs = 'code' in error && (error.code === SQLITE_ERROR || /^E[A-Z]+$/.test(String(error.code)))
  return isOurs ? describeFileError(error) : diskTroubleIn(error.cause)
}
