import { type RawBuilder, sql } from 'kysely'
import type { Dialect } from './database.ts'

/**
 * Triggers that reject updates and deletions. The owner of the table can drop them: they protect against mistakes and
 * a compromised console, not against the database administrator.
 */
export function appendOnlyTriggers(table: string, dialect: Dialect): RawBuilder<unknown>[] {
  const message = `the table ${table} is append-only`
  return dialect === 'sqlite' ? sqliteTriggers(table, message) : postgresTriggers(table, message)
}

function sqliteTriggers(table: string, message: string): RawBuilder<unknown>[] {
  return ['update', 'delete'].map(
    event => sql`
      create trigger ${sql.id(`${table}_refuses_${event}`)} before ${sql.raw(event)} on ${sql.table(table)}
      begin select raise(abort, ${sql.lit(message)}); end`,
  )
}

function postgresTriggers(table: string, message: string): RawBuilder<unknown>[] {
  const name = sql.id(`${table}_refuses_changes`)
  return [
    sql`create function ${name}() returns trigger language plpgsql as
      ${sql.lit(`begin raise exception '${message}'; end`)}`,
    // Per statement: the only kind that TRUNCATE fires.
    sql`create trigger ${name} before update or delete or truncate on ${sql.table(table)}
      for each statement execute function ${name}()`,
  ]
}
