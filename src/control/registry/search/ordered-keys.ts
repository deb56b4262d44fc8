import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Dialect } from '../database/database.ts'
import { keyOfRow } from '../database/key-rows.ts'
import type { KeyRow, Tables } from '../database/tables.ts'
import { type Condition, conditionOf, inWorkspace, isAfter, LAST_USE, whereOf } from './key-conditions.ts'
import type { FoundKey, KeyPosition, KeyQuery, KeySort } from './key-query.ts'

/** Where an index holds the keys in the order of a sort. */
interface SortedIndex {
  readonly table: 'keys' | 'key_use'
  readonly value: string
  readonly id: string
}

const INDEXES: Readonly<Record<KeySort, SortedIndex>> = {
  createdAt: { table: 'keys', value: 'created_at_ms', id: 'id' },
  expiresAt: { table: 'keys', value: 'expires_at_ms', id: 'id' },
  name: { table: 'keys', value: 'name', id: 'id' },
  // Every key has a row here, with 0 until it is used.
  lastUsedAt: { table: 'key_use', value: 'last_used_at_ms', id: 'key_id' },
}

/** A part of a sorted list: what matches among a number of keys that were examined. */
export interface Stretch {
  /** In order; one more than the limit at most. */
  readonly found: readonly PlacedKey[]
  /** Everything up to here was examined; null: everything. */
  readonly end: KeyPosition | null
}

export interface PlacedKey {
  readonly key: FoundKey
  readonly position: KeyPosition
}

export interface Examination {
  readonly query: KeyQuery
  /** Null: all workspaces. */
  readonly workspaceId: string | null
  readonly after: KeyPosition | null
  /** How many keys to examine. */
  readonly count: number
}

export interface SearchContext {
  readonly nowMs: number
  readonly dialect: Dialect
}

interface FoundRow extends KeyRow {
  readonly last_used_at_ms: number
  readonly sorted_value: string | number
  readonly is_match: boolean | 0 | 1
  readonly is_end: boolean | 0 | 1 | null
}

/**
 * Reads a number of keys in order and returns those that match. In one statement, so that a change in between can hide no
 * key; the inner limit bounds its work whatever the conditions are.
 */
export async function examineKeys(
  database: Kysely<Tables>,
  { query, workspaceId, after, count }: Examination,
  { nowMs, dialect }: SearchContext,
): Promise<Stretch> {
  const { descending, limit, sort } = query
  const index = INDEXES[sort]
  const order = orderOf(index, descending)
  const within = whereOf([inWorkspace('workspace_id', workspaceId), isAfter(index, after, descending)])
  const table = sql.table(index.table)
  const last = sql`(select ${sql.ref(index.id)} from ${table} ${within} ${order} limit 1 offset ${count - 1})`
  const condition: Condition = conditionOf(query, nowMs, dialect) ?? sql`true`
  const { rows } = await sql<FoundRow>`
    select keys.*, ${LAST_USE} as last_used_at_ms, examined.sorted_value,
      ${condition} as is_match, keys.id = ${last} as is_end
    from (
      select ${sql.ref(index.id)} as key_id, ${sql.ref(index.value)} as sorted_value from ${table} ${within} ${order} limit ${count}
    ) as examined
    cross join keys
    where keys.id = examined.key_id and (${condition} or keys.id = ${last})
    ${orderOf({ value: 'sorted_value', id: 'examined.key_id' }, descending)}
    limit ${limit + 2}`.execute(database)
  const found = rows
    .filter(row => Boolean(row.is_match))
    .slice(0, limit + 1)
    .map(placedKeyOf)
  const end = rows.find(row => Boolean(row.is_end))
  return { found, end: end === undefined ? null : positionOf(end) }
}

function orderOf({ value, id }: Omit<SortedIndex, 'table'>, descending: boolean): RawBuilder<unknown> {
  const direction = sql.raw(descending ? 'desc' : 'asc')
  return sql`order by ${sql.ref(value)} ${direction}, ${sql.ref(id)} ${direction}`
}

function placedKeyOf(row: FoundRow): PlacedKey {
  const lastUsedAtMs = row.last_used_at_ms === 0 ? null : row.last_used_at_ms
  return { key: { ...keyOfRow(row), lastUsedAtMs }, position: positionOf(row) }
}

function positionOf({ sorted_value, id }: FoundRow): KeyPosition {
  return { value: sorted_value, id }
}
