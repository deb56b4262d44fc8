import { type Kysely, type RawBuilder, type SqlBool, sql } from 'kysely'
import { errorCode } from '../../../domain/errors.ts'
import type { Dialect } from '../../platform/database/database.ts'
import { isInState, readKeyRow } from '../../platform/database/key-row.ts'
import { MAY_TIME_OUT, QUERY_CANCELED } from '../../platform/database/postgres/errors.ts'
import {
  allOf,
  firstRows,
  listAsRows,
  mostFirstRows,
  takePage,
  whereClause,
} from '../../platform/database/query-parts.ts'
import type { KeyRow, Tables } from '../../platform/database/tables.ts'
import {
  EVERY_KEY,
  encodeCursor,
  type FoundKey,
  hasConditions,
  type KeyPosition,
  type KeyQuery,
  type KeySearchPage,
  type KeySelector,
  type KeySort,
} from './key-query.ts'

/** What a search depends on besides its query. */
export interface SearchContext {
  readonly nowMs: number
  readonly dialect: Dialect
  /** Whether PostgreSQL has the index for parts of texts. */
  readonly hasTextIndex: boolean
  readonly bounds: SearchBounds
}

/** What one page may cost. */
export interface SearchBounds {
  /** Keys examined in order, in all workspaces together. */
  readonly examined: number
  /** Keys taken from an index of a text or a state: what more keys have is frequent enough to be found in order. */
  readonly indexed: number
}
export const SEARCH_BOUNDS: SearchBounds = { examined: 2500, indexed: 1000 }

/** Keys examined in one statement: `node:sqlite` blocks the event loop while one runs. */
const EXAMINED_AT_ONCE = 1000
/** PostgreSQL returns all matches of an index at once: this bounds what a frequent one costs. */
const INDEX_TIMEOUT_MS = 25

/**
 * Examines keys in order until the page is full or the bound is reached, which leaves it short. A text or state that few keys have is
 * looked up in its index instead.
 */
export async function searchKeys(
  database: Kysely<Tables>,
  query: KeyQuery,
  context: SearchContext,
): Promise<KeySearchPage> {
  const { limit, workspaceIds } = query
  // Finding where each of many workspaces goes on is work too.
  const places = (workspaceIds?.length ?? 1) - 1
  const most = Math.min(EXAMINED_AT_ONCE, mostFirstRows(workspaceIds, context.dialect))
  const found: PlacedKey[] = []
  let after = query.after
  let left = context.bounds.examined
  // A first, short range is enough where many keys match.
  let count = hasConditions(query) ? 4 * (limit + 1) : limit + 1
  for (let isFirst = true; left > 0; isFirst = false) {
    const range = await examineKeys(database, query, { after, count }, context)
    found.push(...range.found)
    if (found.length > limit || range.end === null) return keyPage(query, { found, end: null })
    const ids = isFirst ? await findByIndex(database, query, context) : null
    if (ids !== null) return keyPage(query, await sortKeys(database, ids, query, context))
    left -= count + places
    after = range.end
    count = Math.max(limit + 1, Math.min(left - places, most))
  }
  return keyPage(query, { found, end: after })
}

function keyPage(query: KeyQuery, { found, end }: SearchedRange): KeySearchPage {
  const { rows, next } = takePage(found, query.limit, ({ position }) => position, end)
  return { keys: rows.map(({ key }) => key), nextCursor: next === null ? null : encodeCursor(query, next) }
}

/** A part of a sorted list: what matches among a number of keys that were examined. */
interface SearchedRange {
  /** In order; one more than the limit at most. */
  readonly found: readonly PlacedKey[]
  /** Everything up to here was examined; null: everything. */
  readonly end: KeyPosition | null
}

interface PlacedKey {
  readonly key: FoundKey
  readonly position: KeyPosition
}

interface FoundRow extends KeyRow {
  readonly last_used_at_ms: number
  readonly sorted_value: string | number
  readonly is_match: boolean | 0 | 1
  readonly is_end: boolean | 0 | 1 | null
}

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

/**
 * Reads a number of keys in order and returns those that match. In one statement, so that a change in between can hide no
 * key; the inner limit bounds its work under all conditions. SQLite would examine them at each mention, were they
 * not materialized. CASE keeps PostgreSQL from looking the condition up in an index of all
 * keys instead.
 */
async function examineKeys(
  database: Kysely<Tables>,
  query: KeyQuery,
  { after, count }: { readonly after: KeyPosition | null; readonly count: number },
  { nowMs, dialect }: SearchContext,
): Promise<SearchedRange> {
  const { descending, limit, sort, workspaceIds } = query
  const within = [timeRange(query, nowMs)]
  const rows = firstRows({ ...INDEXES[sort], workspaceIds, within, after, descending, count }, dialect)
  const order = orderBy({ value: sql.ref('sorted_value'), id: sql.ref('examined.id') }, descending)
  const last = sql`(select examined.id from examined ${order} limit 1 offset ${count - 1})`
  const condition: Condition = keyCondition(query, nowMs, dialect) ?? sql`true`
  const { rows: found } = await sql<FoundRow>`
    with examined as materialized (${rows})
    select keys.*, ${LAST_USE} as last_used_at_ms, examined.sorted_value,
      ${condition} as is_match, keys.id = ${last} as is_end
    from examined cross join keys
    where keys.id = examined.id and case when ${condition} then true else keys.id = ${last} end
    ${order} limit ${limit + 2}`.execute(database)
  const end = found.find(row => Boolean(row.is_end))
  return {
    found: found
      .filter(row => Boolean(row.is_match))
      .slice(0, limit + 1)
      .map(readPlacedKey),
    end: end === undefined ? null : rowPosition(end),
  }
}

/**
 * The part of the index of the sort that can hold matching keys; null: all of it. Without it, a list by expiry of keys that
 * work would begin with all that have expired.
 */
function timeRange(query: KeyQuery, nowMs: number): Condition | null {
  const { sort, state, expiresBeforeMs, createdBeforeMs, lastUsedBeforeMs } = query
  switch (sort) {
    case 'createdAt':
      return createdBeforeMs === null ? null : sql<SqlBool>`created_at_ms < ${createdBeforeMs}`
    case 'lastUsedAt':
      return lastUsedBeforeMs === null ? null : sql<SqlBool>`last_used_at_ms < ${lastUsedBeforeMs}`
    case 'expiresAt': {
      const isLive = state === 'active' || state === 'retiring' || state === 'suspended'
      return allOf([
        isLive ? sql<SqlBool>`expires_at_ms > ${nowMs}` : null,
        state === 'expired' ? sql<SqlBool>`expires_at_ms <= ${nowMs}` : null,
        expiresBeforeMs === null ? null : sql<SqlBool>`expires_at_ms < ${expiresBeforeMs}`,
      ])
    }
    case 'name':
      return null
  }
}

/** Time of the last use, or 0; as a subquery, it is evaluated only for rows that other conditions left. */
const LAST_USE = sql<number>`coalesce((select last_used_at_ms from key_use where key_use.key_id = keys.id), 0)`

const SORTED_VALUES: Readonly<Record<KeySort, RawBuilder<unknown>>> = {
  createdAt: sql.ref('keys.created_at_ms'),
  expiresAt: sql.ref('keys.expires_at_ms'),
  name: sql.ref('keys.name'),
  lastUsedAt: LAST_USE,
}

/** The matching ones of these keys, in order. */
async function sortKeys(
  database: Kysely<Tables>,
  ids: readonly string[],
  query: KeyQuery,
  context: SearchContext,
): Promise<SearchedRange> {
  const place = { value: SORTED_VALUES[query.sort], id: sql.ref('keys.id') }
  const { rows } = await sql<FoundRow>`
    select keys.*, ${LAST_USE} as last_used_at_ms, ${place.value} as sorted_value
    from ${keysAmong(ids, query, context, [isAfter(place, query)])}
    ${orderBy(place, query.descending)} limit ${query.limit + 1}`.execute(database)
  return { found: rows.map(readPlacedKey), end: null }
}

/** The keys with these ids that meet all conditions, under the name `keys`. The limit keeps conditions out: SQLite would read their indexes for each id. */
export function keysAmong(
  ids: readonly string[],
  selector: KeySelector,
  { nowMs, dialect }: SearchContext,
  further: readonly (Condition | null)[] = [],
): RawBuilder<unknown> {
  const named = sql`(select keys.* from ${listAsRows(ids, dialect)} cross join keys where keys.id = listed.value limit ${ids.length})`
  const own = inWorkspaces(selector.workspaceIds, dialect)
  return sql`${named} as keys ${whereClause([own, keyCondition(selector, nowMs, dialect), ...further])}`
}

/** Row values compare like an index that holds both columns. */
function isAfter(
  { value, id }: { readonly value: RawBuilder<unknown>; readonly id: RawBuilder<unknown> },
  { after, descending }: KeyQuery,
): Condition | null {
  if (after === null) return null
  return sql<SqlBool>`(${value}, ${id}) ${sql.raw(descending ? '<' : '>')} (${after.value}, ${after.id})`
}

function orderBy(
  { value, id }: { readonly value: RawBuilder<unknown>; readonly id: RawBuilder<unknown> },
  descending: boolean,
): RawBuilder<unknown> {
  const direction = sql.raw(descending ? 'desc' : 'asc')
  return sql`order by ${value} ${direction}, ${id} ${direction}`
}

function readPlacedKey(row: FoundRow): PlacedKey {
  const lastUsedAtMs = row.last_used_at_ms === 0 ? null : row.last_used_at_ms
  return { key: { ...readKeyRow(row), lastUsedAtMs }, position: rowPosition(row) }
}

function rowPosition({ sorted_value, id }: FoundRow): KeyPosition {
  return { value: sorted_value, id }
}

/**
 * The ids of all keys that may match, if they are few, from the index of texts or the one that has what decides a state.
 * @returns null if neither tells
 */
export async function findByIndex(
  database: Kysely<Tables>,
  selector: KeySelector,
  context: SearchContext,
): Promise<readonly string[] | null> {
  const most = context.bounds.indexed
  const byText = await findByText(database, selector, context)
  if (byText !== null && byText.length <= most) return byText
  const byState = await findByState(database, selector, context)
  return byState !== null && byState.length <= most ? byState : null
}

interface IdRow {
  readonly id: string
}

/** SQLite reads 100,000 entries of an index alone in 7 ms; PostgreSQL chooses one of a rare state. */
async function findByState(
  database: Kysely<Tables>,
  { workspaceIds, state, expiresBeforeMs }: KeySelector,
  { nowMs, dialect, bounds }: SearchContext,
): Promise<string[] | null> {
  const condition = keyCondition({ ...EVERY_KEY, state, expiresBeforeMs }, nowMs, dialect)
  if (condition === null) return null
  const index = dialect === 'sqlite' ? sql`indexed by workspace_keys_by_expiry` : sql``
  const where = whereClause([inWorkspaces(workspaceIds, dialect), condition])
  return findIds(
    database,
    sql`select keys.id from keys ${index} ${where} limit ${bounds.indexed + 1}`,
    dialect,
  )
}

async function findByText(
  database: Kysely<Tables>,
  { text, workspaceIds }: KeySelector,
  { dialect, hasTextIndex, bounds }: SearchContext,
): Promise<string[] | null> {
  if (text === null || !hasTextIndex) return null
  const limit = sql`limit ${bounds.indexed + 1}`
  if (dialect === 'postgres') {
    // Shorter texts have no trigram, and the index would be read from end to end.
    if ([...text].length < 3) return null
    const where = whereClause([inWorkspaces(workspaceIds, dialect), hasText(text, dialect)])
    return findIds(database, sql`select keys.id from keys ${where} ${limit}`, dialect)
  }
  const trigrams = asciiTrigrams(text)
  if (trigrams.length === 0) return null
  const match = trigrams.map(trigram => `"${trigram.replaceAll('"', '""')}"`).join(' AND ')
  // Of all workspaces.
  const matching = sql`select rowid as number from key_texts where key_texts match ${match} ${limit}`
  return findIds(
    database,
    sql`select key_numbers.key_id as id
      from (${matching}) as matching cross join key_numbers where key_numbers.number = matching.number`,
    dialect,
  )
}

/** @returns null if PostgreSQL takes too long */
async function findIds(
  database: Kysely<Tables>,
  query: RawBuilder<IdRow>,
  dialect: Dialect,
): Promise<string[] | null> {
  const settings = { statement_timeout: INDEX_TIMEOUT_MS, enable_seqscan: 'off' } as const
  const rows =
    dialect === 'sqlite' ? (await query.execute(database)).rows : await rowsWithin(database, settings, query)
  return rows?.map(({ id }) => id) ?? null
}

/**
 * The parts of three characters that a text consists of, of ASCII characters alone: SQLite's index and `toLowerCase` fold
 * those alike.
 */
function asciiTrigrams(text: string): string[] {
  const characters = [...text.toLowerCase()]
  const trigrams = characters.slice(2).map((_, at) => characters.slice(at, at + 3).join(''))
  return [...new Set(trigrams)].filter(trigram => /^[\x20-\x7e]{3}$/.test(trigram))
}

/**
 * On PostgreSQL, which cancels a statement that takes longer than it may.
 * @returns null if it was canceled
 */
export async function rowsWithin<Row>(
  database: Kysely<Tables>,
  settings: { readonly statement_timeout: number; readonly enable_seqscan?: 'off' },
  query: RawBuilder<Row>,
): Promise<readonly Row[] | null> {
  try {
    return await database.transaction().execute(async tx => {
      for (const [name, value] of Object.entries(settings)) {
        await sql`set local ${sql.ref(name)} = ${sql.lit(value)}`.execute(tx)
      }
      return (await sql<Row>`${sql.raw(MAY_TIME_OUT)} ${query}`.execute(tx)).rows
    })
  } catch (error) {
    if (errorCode(error) === QUERY_CANCELED) return null
    throw error
  }
}

type Condition = RawBuilder<SqlBool>

/** All conditions on a row of `keys`, aside from its workspace; null without any. */
export function keyCondition(selector: KeySelector, nowMs: number, dialect: Dialect): Condition | null {
  const { state, text, scope, plan, expiresBeforeMs, createdBeforeMs, lastUsedBeforeMs } = selector
  return allOf([
    state === null ? null : isInState(state, { nowMs, soonMs: nowMs }),
    expiresBeforeMs === null ? null : sql<SqlBool>`keys.expires_at_ms < ${expiresBeforeMs}`,
    createdBeforeMs === null ? null : sql<SqlBool>`keys.created_at_ms < ${createdBeforeMs}`,
    scope === null ? null : hasScope(scope, dialect),
    plan === null ? null : sql<SqlBool>`keys.plan = ${plan}`,
    text === null ? null : hasText(text, dialect),
    lastUsedBeforeMs === null ? null : sql<SqlBool>`${LAST_USE} < ${lastUsedBeforeMs}`,
  ])
}

/** The column is a JSON list of strings that need no escapes. */
function hasScope(scope: string, dialect: Dialect): Condition {
  const position = sql.raw(dialect === 'sqlite' ? 'instr' : 'strpos')
  return sql<SqlBool>`${position}(keys.scopes, ${JSON.stringify(scope)}) > 0`
}

/** The fields that a search reads; no text can match across two of them: none holds a line break. */
const SEARCHED_TEXT = {
  sqlite: sql`keys.name || char(10) || keys.id || char(10) || keys.hint || char(10) || coalesce(keys.description, '')`,
  // The collation of the database knows more letters than "C", which the columns have.
  postgres: sql`(keys.name || E'\n' || keys.id || E'\n' || keys.hint || E'\n' || coalesce(keys.description, '')) collate "default"`,
} as const

/** In SQLite, `fold` is a function of the connection: its own LIKE knows no letters beyond ASCII. */
function hasText(text: string, dialect: Dialect): Condition {
  if (dialect === 'sqlite') {
    return sql<SqlBool>`instr(fold(${SEARCHED_TEXT.sqlite}), ${text.toLowerCase()}) > 0`
  }
  // Literally: `%`, `_` and `\` would be a pattern.
  const pattern = `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`
  return sql<SqlBool>`${SEARCHED_TEXT.postgres} ilike ${pattern}`
}

/** @param workspaceIds null: all */
export function inWorkspaces(workspaceIds: readonly string[] | null, dialect: Dialect): Condition | null {
  if (workspaceIds === null) return null
  if (workspaceIds.length === 1) return sql<SqlBool>`keys.workspace_id = ${workspaceIds[0]}`
  return sql<SqlBool>`keys.workspace_id in (select listed.value from ${listAsRows(workspaceIds, dialect)})`
}
