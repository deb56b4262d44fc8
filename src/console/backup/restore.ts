import { existsSync } from 'node:fs'
import { copyFile, link, mkdtemp, realpath, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Kysely } from 'kysely'
import { DATABASE_SETTING } from '../platform/database/database.ts'
import {
  checkIntegrity,
  diskTroubleIn,
  isEmptyOrMissing,
  makeSingleFile,
  requireSqliteFile,
  sqliteFileOf,
} from '../platform/database/database-file.ts'
import { openDatabase } from '../platform/database/open-database.ts'
import { openReadOnly } from '../platform/database/open-read-only.ts'
import { Refused } from '../platform/database/refused.ts'
import type { Tables } from '../platform/database/tables.ts'
import { inspectBackup } from './back-up.ts'
import { requireAuditChain, requireOwnFile, requireSigningSecret } from './check-database.ts'
import { prepareRestored, type RestoreChoices, type Restored } from './prepare-restored.ts'
import { whileLocked } from './source.ts'
import { fillPostgres } from './target.ts'
import { publish, sync, withUnfinished } from './unfinished-file.ts'

export interface RestoreOptions extends RestoreChoices {
  /** `database.url` */
  readonly url: string
  /** A backup. */
  readonly file: string
  /** Replaces a database that holds data. */
  readonly replace: boolean
  /** Of the signing secrets: one of them must have signed keys of the backup. Empty if no secret is given. */
  readonly fingerprints: readonly string[]
}

interface PreparedCopy extends Restored {
  /** What breaks the audit chain of the backup, which was allowed; null if it is intact. */
  readonly brokenAudit: string | null
}

export interface RestoreReport extends PreparedCopy {
  /** The replaced SQLite database; null if there was none. */
  readonly aside: string | null
}

const ALLOW_BROKEN_AUDIT =
  '. Nothing was changed. Use an earlier backup, or add --allow-broken-audit, which restores these entries as they are'

/** Puts a backup in place of a stopped console's database, all of it or nothing, after checking and preparing a copy. */
export async function restoreDatabase(options: RestoreOptions): Promise<RestoreReport> {
  const { url, file } = options
  await requireSqliteFile(file)
  try {
    const target = sqliteFileOf(url)
    return await (target === null ? restorePostgres(options) : restoreSqlite(options, target))
  } catch (error) {
    const trouble = diskTroubleIn(error)
    throw trouble === null ? error : new Refused(`Nothing was replaced: ${trouble}`)
  }
}

async function restoreSqlite(options: RestoreOptions, target: string): Promise<RestoreReport> {
  const file = existsSync(target) ? await realpath(target) : target
  return whileLocked(options.url, DATABASE_SETTING, async () => {
    if (!options.replace && !(await isEmptyOrMissing(file))) throw new Refused(replaceText(file))
    return withUnfinished(file, async unfinished => {
      const restored = await prepareCopy(options, unfinished)
      const aside = await keepAside(file, options.nowMs)
      await publish(unfinished, file)
      return { ...restored, aside }
    })
  })
}

/** By way of a prepared copy in the folder for temporary files. */
async function restorePostgres(options: RestoreOptions): Promise<RestoreReport> {
  const { url } = options
  const directory = await mkdtemp(join(tmpdir(), 'postern-restore-'))
  try {
    const copy = join(directory, 'copy.db')
    const restored = await prepareCopy(options, copy)
    await readFile(copy, source => fillPostgres(source, url, options))
    return { ...restored, aside: null }
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

async function readFile<Result>(
  file: string,
  read: (database: Kysely<Tables>) => Promise<Result>,
): Promise<Result> {
  const database = await openReadOnly(`sqlite:${file}`)
  try {
    return await read(database)
  } finally {
    await database.destroy()
  }
}

/** Checks the backup before anything is changed in its copy, and migrates it. */
async function prepareCopy(options: RestoreOptions, copy: string): Promise<PreparedCopy> {
  await copyFile(options.file, copy)
  checkIntegrity(copy, options.file)
  // Before anything is written, which could run what was added.
  await readFile(copy, database => requireOwnFile(database, options.file))
  const database = await openDatabase(`sqlite:${copy}`)
  let restored: PreparedCopy
  try {
    await requireSigningSecret(database.reader, options.file, options.fingerprints)
    const check = { ...options, advice: ALLOW_BROKEN_AUDIT }
    const { brokenAudit } = await inspectBackup(copy, reader =>
      requireAuditChain(reader, options.file, check),
    )
    restored = { ...(await prepareRestored(database, options)), brokenAudit }
  } finally {
    await database.close()
  }
  makeSingleFile(copy)
  checkIntegrity(copy)
  return restored
}

/**
 * The database that is replaced gets another name as well, and keeps its own until the new one takes it. Its write-ahead log
 * must be gone by then: SQLite would apply it to the new file.
 */
async function keepAside(file: string, nowMs: number): Promise<string | null> {
  if (!existsSync(file)) return null
  const aside = `${file}.before-${new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, '')}`
  try {
    makeSingleFile(file)
  } catch {
    // Damaged: its log is kept beside it as it is.
    for (const suffix of ['-wal', '-shm', '-journal']) {
      if (existsSync(`${file}${suffix}`)) await rename(`${file}${suffix}`, `${aside}${suffix}`)
    }
  }
  await link(file, aside)
  await sync(dirname(file))
  return aside
}

function replaceText(name: string): string {
  return `${name} holds data, so nothing was changed. Add --replace to restore in its place`
}
