import type { Kysely } from 'kysely'
import { countConsoles } from '../engines/postgres-database.ts'
import { lockSqliteFile } from '../engines/sqlite-lock.ts'
import { openReadOnly } from '../open-read-only.ts'
import type { Tables } from '../tables.ts'
import { requireSchema } from './check-database.ts'
import { sqliteFileOf } from './database-file.ts'
import { Refused } from './refused.ts'

/** Reads a PostgreSQL database as of one moment, beside consoles that write to it. */
export async function readPostgres<Result>(
  url: string,
  read: (source: Kysely<Tables>) => Promise<Result>,
): Promise<Result> {
  const connection = await openReadOnly(url)
  try {
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
    return readPostgres(url, async source => {
      await requireNoConsole(source)
      return read(source)
    })
  }
  const source = await openReadOnly(url)
  try {
    return await whileLocked(url, async () => {
      await requireSchema(source, 'sqlite', 'The database')
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
