import { type RawBuilder, sql } from 'kysely'
import type { Dialect } from '../database.ts'

/**
 * Triggers that refuse to change or delete rows. The owner of the table can drop them: they protect against mistakes and
 * a compromised console, not against the database administrator.
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
    // Per statement: the only kind that TRUNCATE fires.
    sql`create trigger ${name} before update or delete or truncate on ${sql.table(table)}
      for each statement execute function ${name}()`,
  ]
}
