import { isEmptyOrMissing, sqliteFileOf } from './database-file.ts'
import { Refused } from './refused.ts'
import { readStopped, whileLocked } from './source.ts'
import { type CopyOptions, fillPostgres, fillSqlite, notEmptyText } from './target.ts'
import { publish, withUnfinished } from './unfinished-file.ts'

/**
 * Copies a stopped console's database to an empty one, of the same kind or the other: ids, digests, versions and the audit
 * chain stay. A copy that is cut off leaves the target as it was. @returns the number of rows
 */
export async function copyDatabase(
  from: string,
  to: string,
  options: Omit<CopyOptions, 'replace'>,
): Promise<number> {
  const file = sqliteFileOf(to)
  if (file === null) {
    return readStopped(from, source => fillPostgres(source, to, { ...options, replace: false }))
  }
  if (!(await isEmptyOrMissing(file))) throw new Refused(notEmptyText(file))
  return readStopped(from, source =>
    whileLocked(to, () =>
      withUnfinished(file, async unfinished => {
        const rows = await fillSqlite(source, unfinished, options)
        await publish(unfinished, file)
        return rows
      }),
    ),
  )
}
