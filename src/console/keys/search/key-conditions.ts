import { expressionBuilder, type RawBuilder, type SqlBool, sql } from 'kysely'
import type { Dialect } from '../../platform/database/database.ts'
import { listOf } from '../../platform/database/first-rows.ts'
import type { Tables } from '../../platform/database/tables.ts'
import { isSelected } from './key-filter.ts'
import type { KeyPosition, KeySelector, KeySort } from './key-query.ts'

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

export function whereClauseOf(conditions: readonly (Condition | null)[]): RawBuilder<unknown> {
  const condition = all(conditions)
  return condition === null ? sql`` : sql`where ${condition}`
}

/** @param workspaceIds null: all */
export function inWorkspaces(
  column: string,
  workspaceIds: readonly string[] | null,
  dialect: Dialect,
): Condition | null {
  if (workspaceIds === null) return null
  if (workspaceIds.length === 1) return sql<SqlBool>`${sql.ref(column)} = ${workspaceIds[0]}`
  return sql<SqlBool>`${sql.ref(column)} in (select listed.value from ${listOf(workspaceIds, dialect)})`
}

/**
 * The part of the index of a sort that can hold matching keys; null: all of it. Without it, a list by expiry of keys that
 * work would begin with all that have expired.
 */
export function timeRange(selector: KeySelector, sort: KeySort, nowMs: number): Condition | null {
  const { state, expiresBeforeMs, createdBeforeMs, lastUsedBeforeMs } = selector
  switch (sort) {
    case 'createdAt':
      return createdBeforeMs === null ? null : sql<SqlBool>`created_at_ms < ${createdBeforeMs}`
    case 'lastUsedAt':
      return lastUsedBeforeMs === null ? null : sql<SqlBool>`last_used_at_ms < ${lastUsedBeforeMs}`
    case 'expiresAt': {
      const isLive = state === 'active' || state === 'retiring' || state === 'suspended'
      return all([
        isLive ? sql<SqlBool>`expires_at_ms > ${nowMs}` : null,
        state === 'expired' ? sql<SqlBool>`expires_at_ms <= ${nowMs}` : null,
        expiresBeforeMs === null ? null : sql<SqlBool>`expires_at_ms < ${expiresBeforeMs}`,
      ])
    }
    case 'name':
      return null
  }
}

/**
 * The keys with these ids, under the name `keys`. The limit keeps other conditions out: SQLite would read their indexes for
 * each id.
 */
export function keysWith(ids: readonly string[], dialect: Dialect): RawBuilder<unknown> {
  return sql`(select keys.* from ${listOf(ids, dialect)} cross join keys where keys.id = listed.value limit ${ids.length}) as keys`
}

/** Rows after a position: row values compare like the index that holds both columns. */
export function isAfter(
  columns: { readonly value: RawBuilder<unknown>; readonly id: RawBuilder<unknown> },
  position: KeyPosition | null,
  descending: boolean,
): Condition | null {
  if (position === null) return null
  return sql<SqlBool>`(${columns.value}, ${columns.id}) ${sql.raw(descending ? '<' : '>')} (${position.value}, ${position.id})`
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
