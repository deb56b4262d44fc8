import { existsSync } from 'node:fs'
import type { Kysely } from 'kysely'
import type { AuditKeys } from '../platform/audit/mac.ts'
import { type ProgressDisplay, Refused } from '../platform/database/database.ts'
import { describeDifferences, lastMigration, missingMigrations } from '../platform/database/migrations.ts'
import {
  checkIntegrity,
  copyPages,
  diskTroubleIn,
  makeSingleFile,
  sqliteFilePath,
} from '../platform/database/sqlite/database.ts'
import { compareSqliteSchema } from '../platform/database/sqlite/schema.ts'
import type { Tables } from '../platform/database/tables.ts'
import { openReadOnly, readDatabase } from '../platform/open-database.ts'
import { MIGRATIONS } from '../schema.ts'
import { existsAlready } from './new-name.ts'
import { type CheckedAudit, checkAudit, countKeys, readPostgres } from './read-database.ts'
import { fillSqlite, publish, publishNew, withUnfinished } from './write-database.ts'

interface BackupOptions {
  /** `database.url`: a SQLite file or PostgreSQL, also while consoles use it. */
  readonly url: string
  readonly file: string
  /** Replaces the file if it exists. */
  readonly force: boolean
  readonly auditKeys: AuditKeys
  readonly nowMs: number
  readonly progress: ProgressDisplay
}

interface BackupReport {
  readonly keys: number
  readonly auditEntries: number
  /** Hash of the newest audit entry; keep it elsewhere. */
  readonly auditHead: string
  /** What breaks the audit chain, for which a restore refuses the backup; null if it is intact. */
  readonly brokenAudit: string | null
}

interface SavedReport extends BackupReport {
  /** What is not as the migrations make it, for which a restore refuses the backup; null if there is nothing. */
  readonly schemaDifferences: string | null
}

/**
 * Saves the database, SQLite or PostgreSQL, to a SQLite file. The file appears under its name only when it is whole,
 * checked and on the disk.
 */
export async function backUp(options: BackupOptions): Promise<SavedReport> {
  const { file, force } = options
  if (!force && existsSync(file)) throw new Refused(existsAlready(file))
  try {
    return await withUnfinished(file, async unfinished => {
      await copyTo(unfinished, options)
      // A forged entry must not stop backups.
      const report = await inspectBackup(unfinished, database =>
        checkAudit(database, 'the database', options),
      )
      const schemaDifferences = await describeSchema(unfinished)
      if (force) await publish(unfinished, file)
      // Another backup of this name may have been faster.
      else if (!(await publishNew(unfinished, file))) throw new Refused(existsAlready(file))
      return { ...report, schemaDifferences }
    })
  } catch (error) {
    const trouble = diskTroubleIn(error)
    throw trouble === null ? error : new Refused(`The backup ${file} cannot be written: ${trouble}`)
  }
}

async function copyTo(unfinished: string, options: BackupOptions): Promise<void> {
  const { url, progress } = options
  const source = sqliteFilePath(url)
  if (source !== null) return copySqlite(url, source, unfinished, progress)
  await readPostgres(url, tables => fillSqlite(tables, unfinished, { ...options, allowsBrokenAudit: true }))
}

async function copySqlite(url: string, from: string, to: string, progress: ProgressDisplay): Promise<void> {
  // Explains a missing file.
  await (await openReadOnly(url)).destroy()
  await copyPages(from, to, progress)
  makeSingleFile(to)
  checkIntegrity(to, from)
}

/** The copy of a SQLite database has what was added to its schema. @throws NewerSchema */
function describeSchema(file: string): Promise<string | null> {
  return readDatabase(`sqlite:${file}`, async database => {
    await missingMigrations(database, MIGRATIONS)
    const differences = await compareSqliteSchema(database, MIGRATIONS, await lastMigration(database))
    return differences.length === 0 ? null : describeDifferences(differences)
  })
}

export function inspectBackup(
  file: string,
  check: (database: Kysely<Tables>) => Promise<CheckedAudit>,
): Promise<BackupReport> {
  return readDatabase(`sqlite:${file}`, async database => {
    const { head, read, broken } = await check(database)
    const keys = await countKeys(database)
    return { keys, auditEntries: read, auditHead: head?.hash ?? 'none', brokenAudit: broken }
  })
}
