import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Dialect } from '../../platform/database/database.ts'
import { firstRows } from '../../platform/database/first-rows.ts'
import { keyOfRow } from '../../platform/database/key-row.ts'
import type { KeyRow, Tables } from '../../platform/database/tables.ts'
import {
  type Condition,
  conditionOf,
  inWorkspaces,
  isAfter,
  keysWith,
  LAST_USE,
  timeRange,
  whereClauseOf,
} from './key-conditions.ts'
import type { FoundKey, KeyPosition, KeyQuery, KeySort } from './key-query.ts'

/** What a search depends on besides its query. */
export interface SearchContext {
  readonly nowMs: number
  readonly dialect: Dialect
  /** Whether PostgreSQL has the index for parts of texts. */
  readonly hasTextIndex: boolean
  readonly bounds: SearchBounds
}

/** What one page may cost: some milliseconds for every query. */
export interface SearchBounds {
  /** Keys examined in order, in all workspaces together. */
  readonly examined: number
  /** Keys found by an index; one that finds more is no help. */
  readonly candidates: number
}
export const SEARCH_BOUNDS: SearchBounds = { examined: 2500, candidates: 1000 }

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
export interface SearchedRange {
  /** In order; one more than the limit at most. */
  readonly found: readonly PlacedKey[]
  /** Everything up to here was examined; null: everything. */
  readonly end: KeyPosition | null
}

export interface PlacedKey {
  readonly key: FoundKey
  readonly position: KeyPosition
}

interface FoundRow extends KeyRow {
  readonly last_used_at_ms: number
  readonly sorted_value: string | number
  readonly is_match: boolean | 0 | 1
  readonly is_end: boolean | 0 | 1 | null
}

/**
 * Reads a number of keys in order and returns those that match. In one statement, so that a change in between can hide no
 * key; the inner limit bounds its work under all conditions.
 */
export async function examineKeys(
  database: Kysely<Tables>,
  query: KeyQuery,
  { after, count }: { readonly after: KeyPosition | null; readonly count: number },
  { nowMs, dialect }: SearchContext,
): Promise<SearchedRange> {
  const { descending, limit, sort, workspaceIds } = query
  const within = [timeRange(query, sort, nowMs)]
  const rows = firstRows({ ...INDEXES[sort], workspaceIds, within, after, descending, count }, dialect)
  const order = orderOf({ value: sql.ref('sorted_value'), id: sql.ref('examined.id') }, descending)
  const last = sql`(select examined.id from examined ${order} limit 1 offset ${count - 1})`
  const condition: Condition = conditionOf(query, nowMs, dialect) ?? sql`true`
  const { rows: found } = await sql<FoundRow>`
    with examined as (${rows})
    select keys.*, ${LAST_USE} as last_used_at_ms, examined.sorted_value,
      ${condition} as is_match, keys.id = ${last} as is_end
    from examined cross join keys
    where keys.id = examined.id and (${condition} or keys.id = ${last})
    ${order} limit ${limit + 2}`.execute(database)
  const end = found.find(row => Boolean(row.is_end))
  return {
    found: found
      .filter(row => Boolean(row.is_match))
      .slice(0, limit + 1)
      .map(placedKeyOf),
    end: end === undefined ? null : positionOf(end),
  }
}

const SORTED_VALUES: Readonly<Record<KeySort, RawBuilder<unknown>>> = {
  createdAt: sql.ref('keys.created_at_ms'),
  expiresAt: sql.ref('keys.expires_at_ms'),
  name: sql.ref('keys.name'),
  lastUsedAt: LAST_USE,
}

/** The matching ones of these keys, in order. */
export async function sortKeys(
  database: Kysely<Tables>,
  ids: readonly string[],
  query: KeyQuery,
  { nowMs, dialect }: SearchContext,
): Promise<SearchedRange> {
  const place = { value: SORTED_VALUES[query.sort], id: sql.ref('keys.id') }
  const conditions = [
    inWorkspaces('keys.workspace_id', query.workspaceIds, dialect),
    conditionOf(query, nowMs, dialect),
    isAfter(place, query.after, query.descending),
  ]
  const { rows } = await sql<FoundRow>`
    select keys.*, ${LAST_USE} as last_used_at_ms, ${place.value} as sorted_value
    from ${keysWith(ids, dialect)} ${whereClauseOf(conditions)}
    ${orderOf(place, query.descending)} limit ${query.limit + 1}`.execute(database)
  return { found: rows.map(placedKeyOf), end: null }
}

function orderOf(
  { value, id }: { readonly value: RawBuilder<unknown>; readonly id: RawBuilder<unknown> },
  descending: boolean,
): RawBuilder<unknown> {
  const direction = sql.raw(descending ? 'desc' : 'asc')
  return sql`order by ${value} ${direction}, ${id} ${direction}`
}

function placedKeyOf(row: FoundRow): PlacedKey {
  const lastUsedAtMs = row.last_used_at_ms === 0 ? null : row.last_used_at_ms
  return { key: { ...keyOfRow(row), lastUsedAtMs }, position: positionOf(row) }
}

function positionOf({ sorted_value, id }: FoundRow): KeyPosition {
  return { value: sorted_value, id }
}
