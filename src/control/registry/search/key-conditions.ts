import { expressionBuilder, type RawBuilder, type SqlBool, sql } from 'kysely'
import type { Dialect } from '../database/database.ts'
import { isSelected } from '../database/key-filter.ts'
import type { Tables } from '../database/tables.ts'
import type { KeyPosition, KeySelector } from './key-query.ts'

export type Condition = RawBuilder<SqlBool>

/** The fields that a search reads; no text can match across two of them: none holds a line break. */
export const SEARCHED_TEXT = {
  sqlite: sql`keys.name || char(10) || keys.id || char(10) || keys.hint || char(10) || coalesce(keys.description, '')`,
  // The collation of the database knows more letters than "C", which the columns have.
  postgres: sql`(keys.name || E'\n' || keys.id || E'\n' || keys.hint || E'\n' || coalesce(keys.description, '')) collate "default"`,
} as const

/** Time of the last use, or 0; as a subquery, it is evaluated only for rows that other conditions left. */
export const LAST_USE = sql<number>`coalesce((select last_used_at_ms from key_use where key_use.key_id = keys.id), 0)`

/** All conditions on a row of `keys`, aside from its workspace. */
export function conditionOf(selector: KeySelector, nowMs: number, dialect: Dialect): Condition | null {
  const { state, text, scope, expiresBeforeMs, createdBeforeMs, lastUsedBeforeMs } = selector
  const row = expressionBuilder<Tables, 'keys'>()
  return all([
    state === null ? null : sql<SqlBool>`${isSelected(row, { filter: state, nowMs, soonMs: nowMs })}`,
    expiresBeforeMs === null ? null : sql<SqlBool>`keys.expires_at_ms < ${expiresBeforeMs}`,
    createdBeforeMs === null ? null : sql<SqlBool>`keys.created_at_ms < ${createdBeforeMs}`,
    scope === null ? null : hasScope(scope, dialect),
    text === null ? null : hasText(text, dialect),
    lastUsedBeforeMs === null ? null : sql<SqlBool>`${LAST_USE} < ${lastUsedBeforeMs}`,
  ])
}

/** @returns null without any condition */
export function all(conditions: readonly (Condition | null)[]): Condition | null {
  const held = conditions.filter(condition => condition !== null)
  return held.length === 0 ? null : sql<SqlBool>`(${sql.join(held, sql` and `)})`
}

export function whereOf(conditions: readonly (Condition | null)[]): RawBuilder<unknown> {
  const condition = all(conditions)
  return condition === null ? sql`` : sql`where ${condition}`
}

export function inWorkspace(column: string, workspaceId: string | null): Condition | null {
  return workspaceId === null ? null : sql<SqlBool>`${sql.ref(column)} = ${workspaceId}`
}

/** Rows after a position: row values compare like the index that holds both columns. */
export function isAfter(
  columns: { readonly value: string; readonly id: string },
  position: KeyPosition | null,
  descending: boolean,
): Condition | null {
  if (position === null) return null
  const row = sql`(${sql.ref(columns.value)}, ${sql.ref(columns.id)})`
  return sql<SqlBool>`${row} ${sql.raw(descending ? '<' : '>')} (${position.value}, ${position.id})`
}

/** In SQLite, `fold` is a function of the connection: its own LIKE knows no letters beyond ASCII. */
export function hasText(text: string, dialect: Dialect): Condition {
  return dialect === 'sqlite'
    ? sql<SqlBool>`instr(fold(${SEARCHED_TEXT.sqlite}), ${text.toLowerCase()}) > 0`
    : sql<SqlBool>`${SEARCHED_TEXT.postgres} ilike ${containing(text)}`
}

/** A LIKE pattern for texts that contain this one literally. */
export function containing(text: string): string {
  return `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`
}

/** The column is a JSON list of strings that need no escapes. */
function hasScope(scope: string, dialect: Dialect): Condition {
  const position = sql.raw(dialect === 'sqlite' ? 'instr' : 'strpos')
  return sql<SqlBool>`${position}(keys.scopes, ${JSON.stringify(scope)}) > 0`
}
