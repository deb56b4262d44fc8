import { existsSync, statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import { isPostgresAddress } from '../../../domain/postgres-address.ts'
import { causeOf } from '../../../observability/control-logger.ts'
import { DATABASE_SETTING } from './database.ts'
import { requireSqliteFile } from './database-file.ts'
import { openPostgresReadOnly } from './postgres-database.ts'
import { Refused } from './refused.ts'
import { NodeSqliteDialect } from './sqlite-dialect.ts'
import type { Tables } from './tables.ts'

const BUSY_TIMEOUT_MS = 2000

interface Options {
  /** Of the setting or argument. */
  readonly name?: string
  /** Refuses a pooler, behind which running consoles cannot be seen. */
  readonly seesConsoles?: boolean
}

/**
 * One connection that cannot write and migrates nothing, also beside a running console. Destroy it after use.
 * @param url `sqlite:FILE` or `postgres://…`; error messages never repeat it
 */
export async function openReadOnly(
  url: string,
  { name = DATABASE_SETTING, seesConsoles = false }: Options = {},
): Promise<Kysely<Tables>> {
  if (isPostgresAddress(url)) return openPostgresReadOnly(url, { name, seesConsoles })
  const file = /^sqlite:(.+)$/s.exec(url)?.[1]
  if (file === undefined || file === ':memory:' || !existsSync(file)) {
    throw new Refused(`${name}: there is no SQLite file to read at ${file}`)
  }
  // An empty file is a database without tables.
  if (statSync(file).size > 0) await requireSqliteFile(file, `${name}: the file ${file}`)
  return new Kysely<Tables>({ dialect: new NodeSqliteDialect(openFile(file, name)) })
}

function openFile(file: string, name: string): DatabaseSync {
  let database: DatabaseSync | undefined
  try {
    database = new DatabaseSync(file, { readOnly: true, timeout: BUSY_TIMEOUT_MS })
    // Reads the schema, which SQLite does not do until it is needed.
    database.prepare('select count(*) from sqlite_master').get()
    return database
  } catch (error) {
    database?.close()
    throw new Refused(`${name}: the SQLite file ${file} cannot be read: ${causeOf(error)}`)
  }
}
