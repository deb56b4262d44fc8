import type { Kysely } from 'kysely'
import { countConsoles } from '../engines/postgres-database.ts'
import { lockSqliteFile } from '../engines/sqlite-lock.ts'
import { openReadOnly } from '../open-read-only.ts'
import type { Tables } from '../tables.ts'
import { requireOwnFile, requireOwnPostgres, requireSchema } from './check-database.ts'
import { sqliteFileOf } from './database-file.ts'
import { Refused } from './refused.ts'

/**
 * Reads a PostgreSQL database as of one moment, beside consoles that write to it.
 * @param check before, on the same connection
 */
export async function readPostgres<Result>(
  url: string,
  read: (source: Kysely<Tables>) => Promise<Result>,
  check: (connection: Kysely<Tables>) => Promise<void> = async () => {},
): Promise<Result> {
  const connection = await openReadOnly(url)
  try {
    await check(connection)
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

/** Reads a database that no console may change meanwhile: what it changed later would be lost. */
export async function readStopped<Result>(
  url: string,
  read: (source: Kysely<Tables>) => Promise<Result>,
): Promise<Result> {
  if (sqliteFileOf(url) === null) {
    const readAlone = async (source: Kysely<Tables>) => {
      await requireNoConsole(source)
      return read(source)
    }
    return readPostgres(url, readAlone, async connection => {
      await requireSchema(connection, 'postgres', 'The database')
      await requireOwnPostgres(connection, 'the database to copy')
    })
  }
  const source = await openReadOnly(url)
  try {
    return await whileLocked(url, async () => {
      await requireSchema(source, 'sqlite', 'The database')
      await requireOwnFile(source, 'the database to copy')
      return read(source)
    })
  } finally {
    await source.destroy()
  }
}

/** No console can start on the SQLite file meanwhile. @throws if one runs */
export async function whileLocked<Result>(url: string, run: () => Promise<Result>): Promise<Result> {
  const release = lockSqliteFile(url)
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
  throw new Refused('A console uses this PostgreSQL database: stop every console first')
}
