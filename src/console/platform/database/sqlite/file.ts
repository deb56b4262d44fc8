import { existsSync } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import { backup, DatabaseSync } from 'node:sqlite'
import { type ProgressDisplay, Refused } from '../database.ts'
import { findTrouble } from '../database-unavailable.ts'
import { createPrivateFile } from './database.ts'

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
    return [error instanceof Error ? error.message : String(error)]
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
