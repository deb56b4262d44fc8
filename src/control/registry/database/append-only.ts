import { type RawBuilder, sql } from 'kysely'
import type { Dialect } from './database.ts'

/**
 * Statements that make the database itself refuse to change or delete rows of a table. Who owns the table can undo it:
 * it stands against mistakes and against a console that was taken over, not against the database's own administrator.
 */
export function refuseChanges(table: string, dialect: Dialect): RawBuilder<unknown>[] {
  const refusal = `the table ${table} is append-only`
  return dialect === 'sqlite' ? refuseInSqlite(table, refusal) : refuseInPostgres(table, refusal)
}

function refuseInSqlite(table: string, refusal: string): RawBuilder<unknown>[] {
  return ['update', 'delete'].map(
    event => sql`
      create trigger ${sql.id(`${table}_refuses_${event}`)} before ${sql.raw(event)} on ${sql.table(table)}
      begin select raise(abort, ${sql.lit(refusal)}); end`,
  )
}

function refuseInPostgres(table: string, refusal: string): RawBuilder<unknown>[] {
  const name = sql.id(`${table}_refuses_changes`)
  return [
    sql`create function ${name}() returns trigger language plpgsql as
      ${sql.lit(`begin raise exception '${refusal}'; end`)}`,
    // For each statement: also one that would change no row, and the only kind that TRUNCATE knows.
    sql`create trigger ${name} before update or delete or truncate on ${sql.table(table)}
      for each statement execute function ${name}()`,
  ]
}
