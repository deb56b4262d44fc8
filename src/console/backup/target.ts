import { type Kysely, sql, type Transaction } from 'kysely'
import { DATABASE_SETTING } from '../platform/database/database.ts'
import { checkIntegrity, makeSingleFile } from '../platform/database/database-file.ts'
import { openDatabase } from '../platform/database/open-database.ts'
import { openPostgresForCopy } from '../platform/database/postgres-database.ts'
import { type ProgressOf, Refused } from '../platform/database/refused.ts'
import type { Tables } from '../platform/database/tables.ts'
import { type AuditCheck, requireAuditChain, requireOwnPostgres } from './check-database.ts'
import { COPIED_TABLES } from './copied-tables.ts'
import { copyRows } from './copy-rows.ts'
import { requireNoConsole } from './source.ts'

/** Tables that show that a console has been in use: a console that only started has filled others. */
const USED_TABLES = ['keys', 'audit', 'admin_tokens'] as const
/** Longer waits are those for a console that was not stopped. */
const LOCK_TIMEOUT_MS = '5000'

export interface CopyOptions extends AuditCheck {
  /** Replaces what the target holds. */
  readonly replace: boolean
  /** Of the setting or argument that names the target. */
  readonly name?: string
  readonly progress: ProgressOf
  /** Also copies an audit log with entries that no console wrote. Default: refused. */
  readonly allowsBrokenAudit?: boolean
}

/** Fills a new SQLite file. It is complete and checked once this resolves. @returns the number of rows */
export async function fillSqlite(
  source: Kysely<Tables>,
  file: string,
  options: Omit<CopyOptions, 'replace'>,
): Promise<number> {
  const { writer, close } = await openDatabase(`sqlite:${file}`)
  let rows: number
  try {
    // Entries that a console on PostgreSQL was about to add to the chain are added by the next console.
    rows = await writer.transaction().execute(tx => copyRows(source, tx, 'sqlite', options.progress))
    await requireAuditChain(writer, 'the copy', options)
  } finally {
    await close()
  }
  makeSingleFile(file)
  checkIntegrity(file)
  return rows
}

/** All or nothing: a copy that is cut off leaves the database as it was. @returns the number of rows */
export async function fillPostgres(
  source: Kysely<Tables>,
  url: string,
  options: CopyOptions,
): Promise<number> {
  const { replace, name = DATABASE_SETTING } = options
  const target = await openPostgresForCopy(url, name)
  try {
    await requireNoConsole(target)
    await requireOwnPostgres(target, name)
    return await target.transaction().execute(async tx => {
      await sql`select set_config('lock_timeout', ${LOCK_TIMEOUT_MS}, true)`.execute(tx)
      // Also keeps consoles out until the end.
      await sql`alter table audit disable trigger user`.execute(tx)
      if (!replace) await requireUnused(tx)
      await sql`truncate ${sql.join(COPIED_TABLES.map(({ table }) => sql.table(table)))}`.execute(tx)
      const rows = await copyRows(source, tx, 'postgres', options.progress)
      await requireAuditChain(tx, 'the copy', options)
      await sql`alter table audit enable trigger user`.execute(tx)
      return rows
    })
  } finally {
    await target.destroy()
  }
}

async function requireUnused(tx: Transaction<Tables>): Promise<void> {
  for (const table of USED_TABLES) {
    const row = await tx.selectFrom(table).select('id').limit(1).executeTakeFirst()
    if (row !== undefined) throw new Refused(notEmptyText('The PostgreSQL database'))
  }
}

export function notEmptyText(name: string): string {
  return `${name} holds data, so nothing was changed. Name an empty database; a restore replaces it with --replace`
}
