import { closeSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { Kysely, sql } from 'kysely'
import { UNSIGNED_AUDIT } from '../audit/mac.ts'
import type { Database } from './database.ts'
import type { ReportTrouble } from './database-unavailable.ts'
import { migrate } from './migrations.ts'
import { NodeSqliteDialect } from './sqlite-dialect.ts'
import type { Tables } from './tables.ts'

export const IN_MEMORY = ':memory:'
/** While opening; later waits must not block the process. */
const OPENING_TIMEOUT_MS = 2000

export async function openSqlite(file: string, report: ReportTrouble): Promise<Database> {
  const writer = connect(file, report)
  try {
    await migrate(writer, 'sqlite')
    // A database in memory belongs to one connection.
    const [reader, announcing] =
      file === IN_MEMORY ? [writer, writer] : [connect(file, report), connect(file, report)]
    // Kysely closes only connections that were used.
    for (const connection of [reader, announcing]) await sql`select 1`.execute(connection)
    return {
      dialect: 'sqlite',
      hasTextIndex: true,
      audit: UNSIGNED_AUDIT,
      writer,
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
    throw new Error(`database.url: cannot open the SQLite file ${file}`, { cause })
  }
}

/** SQLite copies the main file's mode to its side files. An existing file keeps its mode. */
export function createPrivateFile(file: string): void {
  closeSync(openSync(file, 'a', 0o600))
}
