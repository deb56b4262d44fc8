import type { Kysely } from 'kysely'
import { neverReloads, type OnReload } from '../../../config/reloadable.ts'
import { openPostgres } from './postgres-database.ts'
import { openSqlite } from './sqlite-database.ts'
import type { Tables } from './tables.ts'

export type Dialect = 'sqlite' | 'postgres'

/** Reading has connections of its own: look-ups and beats must not queue behind a burst of changes. */
export interface Database {
  readonly dialect: Dialect
  readonly writer: Kysely<Tables>
  readonly reader: Kysely<Tables>
  close(): Promise<void>
}

/**
 * The system of record, its schema up to date. The address may hold a password, so no message repeats it.
 * @param url `sqlite:FILE`, `sqlite::memory:` or `postgres://…`
 * @param onReload how the same address with another user or password is heard of
 * @throws DatabaseUnreachable where it may help to try again
 */
export async function openDatabase(
  url: string,
  onReload: OnReload<string> = neverReloads,
): Promise<Database> {
  if (/^postgres(?:ql)?:/.test(url)) return openPostgres(url, onReload)
  if (/^sqlite:./.test(url)) return openSqlite(url.slice('sqlite:'.length))
  throw new Error('database.url must be sqlite:FILE, such as sqlite:postern.db, or postgres://…')
}
