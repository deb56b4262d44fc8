import type { Kysely } from 'kysely'
import { DATABASE_SETTING } from '../platform/database/database.ts'
import { checkIntegrity, sqliteFileOf } from '../platform/database/database-file.ts'
import { openReadOnly } from '../platform/database/open-read-only.ts'
import { countConsoles } from '../platform/database/postgres-database.ts'
import { Refused } from '../platform/database/refused.ts'
import { lockSqliteFile } from '../platform/database/sqlite-lock.ts'
import type { Tables } from '../platform/database/tables.ts'
import { requireOwnFile, requireOwnPostgres, requireSchema } from './check-database.ts'

interface ReadOptions {
  /** Of the setting or argument. */
  readonly name?: string
  /** Refuses a pooler, behind which running consoles cannot be seen. */
  readonly seesConsoles?: boolean
  /** Before, on the same connection. */
  readonly check?: (connection: Kysely<Tables>) => Promise<void>
}

/**
 * Reads a PostgreSQL database as of one moment, beside consoles that write to it.
 */
export async function readPostgres<Result>(
  url: string,
  read: (source: Kysely<Tables>) => Promise<Result>,
  { name = DATABASE_SETTING, seesConsoles = false, check }: ReadOptions = {},
): Promise<Result> {
  const connection = await openReadOnly(url, { name, seesConsoles })
  try {
    await check?.(connection)
    return await connection
      .transaction()
      .setIsolationLevel('repeatable read')
      .execute(async source => {
        await requireSchema(source, 'postgres', 'The database')
        return read(source)
      })
  } finally {
    await connection.destroy()
  }
}

/**
 * Reads a database that no console may change meanwhile: what it changed later would be lost.
 * @param name of the argument
 */
export async function readStopped<Result>(
  url: string,
  name: string,
  read: (source: Kysely<Tables>) => Promise<Result>,
): Promise<Result> {
  const file = sqliteFileOf(url)
  if (file === null) {
    const readAlone = async (source: Kysely<Tables>) => {
      await requireNoConsole(source)
      return read(source)
    }
    const check = async (connection: Kysely<Tables>) => {
      await requireSchema(connection, 'postgres', `${name}: the database`)
      await requireOwnPostgres(connection, name)
    }
    return readPostgres(url, readAlone, { name, seesConsoles: true, check })
  }
  const source = await openReadOnly(url, { name })
  try {
    return await whileLocked(url, name, async () => {
      checkIntegrity(file, `${name} (${file})`, true)
      await requireSchema(source, 'sqlite', `${name}: the database`)
      await requireOwnFile(source, name)
      return read(source)
    })
  } finally {
    await source.destroy()
  }
}

/** No console can start on the SQLite file meanwhile. @throws if one runs */
export async function whileLocked<Result>(
  url: string,
  name: string,
  run: () => Promise<Result>,
): Promise<Result> {
  const release = lockSqliteFile(url, name)
  try {
    return await run()
  } finally {
    release()
  }
}

/** @throws Refused while consoles are connected to the PostgreSQL database */
export async function requireNoConsole(connection: Kysely<Tables>): Promise<void> {
  const count = await countConsoles(connection)
  if (count === 0) return
  throw new Refused(
    'A console uses this PostgreSQL database: stop every console first. A pooler keeps sessions of stopped consoles for some minutes',
  )
}
