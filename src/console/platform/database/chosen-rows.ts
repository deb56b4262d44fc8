import { type RawBuilder, sql } from 'kysely'
import type { Dialect } from './database.ts'

/** The place of a row in its table, for as long as the row is locked. */
export function rowPlace(dialect: Dialect): RawBuilder<unknown> {
  return dialect === 'postgres' ? sql`ctid` : sql`rowid`
}

/**
 * The condition that selects the rows whose `column` is among what `chosen` selects. In PostgreSQL these are locked, and rows that another
 * transaction has locked are left out. There a subquery behind `in` may run anew for each row of a table that is believed to be small,
 * which takes long and locks more rows than its limit; an array is selected once.
 */
export function isChosen(
  column: RawBuilder<unknown>,
  chosen: RawBuilder<unknown>,
  dialect: Dialect,
): RawBuilder<boolean> {
  return dialect === 'postgres'
    ? sql`${column} = any(array(${chosen} for update skip locked))`
    : sql`${column} in (${chosen})`
}
