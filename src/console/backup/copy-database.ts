import type { Kysely } from 'kysely'
import { Refused } from '../platform/database/database.ts'
import { diskTroubleIn, isEmptyOrMissing, sqliteFilePath } from '../platform/database/sqlite/database.ts'
import type { Tables } from '../platform/database/tables.ts'
import { KnownKeys, keysWithEntries, newerGrant, requireRecords, type SeenRecords } from './newer-records.ts'
import { readStopped, requireSigningSecret, whileLocked } from './read-database.ts'
import {
  type CopyOptions,
  fillPostgres,
  fillSqlite,
  notEmptyText,
  publish,
  withUnfinished,
} from './write-database.ts'

/** The arguments, as errors name them. */
const [FROM, TO] = ['<from>', '<to>'] as const

interface CopyDatabaseOptions extends Omit<CopyOptions, 'replace'> {
  /** Null: the source is not compared with Redis. */
  readonly seen: SeenRecords | null
  /** Of the signing secrets; empty if none is given. */
  readonly fingerprints: readonly string[]
}

/**
 * Copies a stopped console's database to an empty one, of the same kind or the other: ids, digests, versions and the audit
 * chain stay. A copy that is cut off leaves the target as it was. @returns the number of rows
 */
export async function copyDatabase(from: string, to: string, options: CopyDatabaseOptions): Promise<number> {
  try {
    return await copyAll(from, to, options)
  } catch (error) {
    const trouble = diskTroubleIn(error)
    throw trouble === null ? error : new Refused(`Nothing was copied: ${trouble}`)
  }
}

async function copyAll(from: string, to: string, options: CopyDatabaseOptions): Promise<number> {
  const file = sqliteFilePath(to)
  if (file !== null && !(await isEmptyOrMissing(file))) throw new Refused(notEmptyText(file))
  return readStopped(from, FROM, async source => {
    await requireSigningSecret(source, FROM, options.fingerprints)
    await requireNewest(source, options)
    if (file === null) return fillPostgres(source, to, { ...options, name: TO, replace: false })
    return whileLocked(to, TO, () =>
      withUnfinished(file, async unfinished => {
        const rows = await fillSqlite(source, unfinished, options)
        await publish(unfinished, file)
        return rows
      }),
    )
  })
}

/** A backup, or another database that is not the newest, would bring revoked keys back. @throws Refused for one */
async function requireNewest(
  source: Kysely<Tables>,
  { seen, nowMs, progress }: CopyDatabaseOptions,
): Promise<void> {
  if (seen === null) return
  const known = new KnownKeys(nowMs)
  let newer = 0
  for await (const { key, entries } of keysWithEntries(source, seen, progress)) {
    known.add(key, entries)
    if (newerGrant(key, entries) !== null) newer += 1
  }
  if (newer > 0) {
    throw new Refused(
      `Redis has newer records of ${newer} keys than the database: it is not the newest, and revoked keys would work again. ` +
        'Nothing was copied. Copy the newest database, or use `database restore`, which takes these records over',
    )
  }
  requireRecords(known.result())
}
