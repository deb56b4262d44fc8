import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import { openPostgresReadOnly } from './engines/postgres-database.ts'
import { NodeSqliteDialect } from './engines/sqlite-dialect.ts'
import type { Tables } from './tables.ts'

const BUSY_TIMEOUT_MS = 2000

/**
 * One connection that cannot write and migrates nothing, also beside a running console. Destroy it after use.
 * @param url `sqlite:FILE` or `postgres://…`; error messages never repeat it
 */
export async function openReadOnly(url: string): Promise<Kysely<Tables>> {
  if (/^postgres(?:ql)?:/.test(url)) return openPostgresReadOnly(url)
  const file = /^sqlite:(.+)$/s.exec(url)?.[1]
  if (file === undefined || file === ':memory:' || !existsSync(file)) {
    throw new Error('database.url: there is no SQLite file to read; it is created when the console starts')
  }
  return new Kysely<Tables>({ dialect: new NodeSqliteDialect(openFile(file)) })
}

function openFile(file: string): DatabaseSync {
  try {
    return new DatabaseSync(file, { readOnly: true, timeout: BUSY_TIMEOUT_MS })
  } catch (cause) {
    throw new Error(`database.url: cannot open the SQLite file ${file}`, { cause })
  }
}
