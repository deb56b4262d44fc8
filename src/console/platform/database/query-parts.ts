import { type RawBuilder, type SqlBool, sql } from 'kysely'
import type { Dialect } from './database.ts'

/** A page of the rows of a workspace. */
export interface PageOptions {
  readonly workspaceId: string
  readonly limit: number
  readonly afterId: string | null
}

/**
 * A page of rows that were read in the order of their list, one more than it holds: that one shows whether there is a next page.
 * @param place where the page after this row starts
 * @param end where the next page starts if there are no more rows; null: there is none
 */
export function takePage<Row, Place>(
  found: readonly Row[],
  limit: number,
  place: (row: Row) => Place,
  end: Place | null = null,
): { readonly rows: readonly Row[]; readonly next: Place | null } {
  const rows = found.slice(0, limit)
  const last = rows.at(-1)
  return { rows, next: found.length > limit && last !== undefined ? place(last) : end }
}

/**
 * All rows of an ordered query, a bounded number by each statement: `node:sqlite` blocks the event loop meanwhile.
 * @param size rows of a batch, of which none is empty and only the last shorter
 * @param readAfter the next rows, at most `size`, in their order; null: the first
 */
export async function* inBatches<Row>(
  size: number,
  readAfter: (last: Row | null) => Promise<readonly Row[]>,
): AsyncGenerator<readonly Row[]> {
  let last: Row | null = null
  for (;;) {
    const rows: readonly Row[] = await readAfter(last)
    if (rows.length > 0) yield rows
    if (rows.length < size) return
    last = rows.at(-1) ?? null
  }
}

/** A place in an ordered list. */
interface RowPosition {
  readonly value: string | number
  /** Decides between equal values. */
  readonly id: string
}

/** The first rows, in the order of two columns, of some workspaces: all that the indexes of a table need to know. */
interface FirstRows {
  readonly table: string
  /** Ordered by this column, then by the id. May be the id itself. */
  readonly value: string
  readonly id: string
  /** Null: all. */
  readonly workspaceIds: readonly string[] | null
  /** What else an index decides, on columns of the table. */
  readonly within: readonly (RawBuilder<SqlBool> | null)[]
  readonly after: RowPosition | null
  readonly descending: boolean
  readonly count: number
}

/**
 * A query for `id` and `sorted_value` of these rows, in any order.
 *
 * With several workspaces it merges what their index holds in order, so that it reads about as many entries as it returns,
 * besides one for each workspace, however many keys they have. `workspace_id in (…)` would read and sort all of them.
 */
export function firstRows(rows: FirstRows, dialect: Dialect): RawBuilder<unknown> {
  const { after, count } = rows
  const workspaceIds = rows.workspaceIds === null ? null : [...new Set(rows.workspaceIds)]
  if (workspaceIds === null || workspaceIds.length === 1) {
    const own = workspaceIds === null ? null : sql<SqlBool>`workspace_id = ${workspaceIds[0]}`
    return ofOne(rows, selectedColumns(rows), {
      within: [own, after === null ? null : isAfter(rows, sql`${after.value}`, sql`${after.id}`)],
      limit: sql`${count}`,
    })
  }
  return dialect === 'sqlite' ? mergeInSqlite(rows, workspaceIds) : mergeInPostgres(rows, workspaceIds)
}

/**
 * The queue of a recursive query of SQLite is a priority queue: it begins with the first row of each workspace, and each row that is
 * taken from it puts in the next one of its workspace.
 */
function mergeInSqlite(rows: FirstRows, workspaceIds: readonly string[]): RawBuilder<unknown> {
  const { after, count } = rows
  const direction = sortDirection(rows)
  const [table, value, id] = [sql.table(rows.table), sql.ref(`own.${rows.value}`), sql.ref(`own.${rows.id}`)]
  const firstRow = (workspaceId: RawBuilder<unknown>, isLater: RawBuilder<SqlBool> | null) =>
    sql`(${ofOne(rows, sql`rowid`, {
      within: [sql<SqlBool>`workspace_id = ${workspaceId}`, isLater],
      limit: sql`1`,
    })})`
  const isLater = after === null ? null : isAfter(rows, sql`${after.value}`, sql`${after.id}`)
  const isNext = isAfter(rows, sql`merged.sorted_value`, sql`merged.id`)
  return sql`select id, sorted_value from (
    with recursive merged (workspace_id, sorted_value, id) as (
      select own.workspace_id, ${value}, ${id} from ${listAsRows(workspaceIds, 'sqlite')} cross join ${table} as own
      where own.rowid = ${firstRow(sql`listed.value`, isLater)}
      union all
      select own.workspace_id, ${value}, ${id} from merged cross join ${table} as own
      where own.rowid = ${firstRow(sql`merged.workspace_id`, isNext)}
      order by 2 ${direction}, 3 ${direction} limit ${count}
    ) select id, sorted_value from merged)`
}

/**
 * Only the workspaces whose first rows come first can have any of the rows, and the one in the nth place none of the first
 * n - 1. That is exact, and reads half of the square of the rows at most.
 */
function mergeInPostgres(rows: FirstRows, workspaceIds: readonly string[]): RawBuilder<unknown> {
  const { after, count } = rows
  const direction = sortDirection(rows)
  const isLater = after === null ? null : isAfter(rows, hidden(after.value), hidden(after.id))
  const order = sql`order by sorted_value ${direction}, id ${direction}`
  const own = (workspaceId: RawBuilder<unknown>, limit: RawBuilder<unknown>) =>
    ofOne(rows, selectedColumns(rows), {
      within: [sql<SqlBool>`workspace_id = ${workspaceId}`, isLater],
      limit,
    })
  return sql`select own.id, own.sorted_value from (
      select listed.value as workspace_id, row_number() over (${order}) as place
      from ${listAsRows(workspaceIds, 'postgres')} cross join lateral (${own(sql`listed.value`, sql`1`)}) as head
      ${order} limit ${count}
    ) as nearest
    cross join lateral (${own(sql`nearest.workspace_id`, sql`${count} + 1 - nearest.place`)}) as own
    ${order} limit ${count}`
}

/**
 * A value that PostgreSQL plans without. It expects no row after one of a time that all have, or that its statistics do not know
 * yet, and would then read the index of all workspaces to the end for each of them.
 */
function hidden(value: string | number): RawBuilder<unknown> {
  return typeof value === 'number' ? sql`(select ${value}::bigint)` : sql`(select ${value}::text)`
}

/** Index entries that a statement of PostgreSQL may read to merge workspaces. */
const MERGED_ENTRIES = 10_000

/** How many rows one statement should ask for at most. */
export function mostFirstRows(workspaceIds: readonly string[] | null, dialect: Dialect): number {
  const parts = workspaceIds?.length ?? 1
  if (dialect === 'sqlite' || parts <= 1) return Number.POSITIVE_INFINITY
  return Math.floor(Math.max(Math.sqrt(2 * MERGED_ENTRIES), MERGED_ENTRIES / parts))
}

function ofOne(
  rows: FirstRows,
  columns: RawBuilder<unknown>,
  { within, limit }: { within: readonly (RawBuilder<SqlBool> | null)[]; limit: RawBuilder<unknown> },
): RawBuilder<unknown> {
  const direction = sortDirection(rows)
  return sql`select ${columns} from ${sql.table(rows.table)} ${whereClause([...within, ...rows.within])}
    order by ${sql.ref(rows.value)} ${direction}, ${sql.ref(rows.id)} ${direction} limit ${limit}`
}

function selectedColumns({ value, id }: FirstRows): RawBuilder<unknown> {
  return sql`${sql.ref(id)} as id, ${sql.ref(value)} as sorted_value`
}

function sortDirection({ descending }: FirstRows): RawBuilder<unknown> {
  return sql.raw(descending ? 'desc' : 'asc')
}

/** Row values compare like the index that holds both columns. */
function isAfter(
  { value, id, descending }: FirstRows,
  afterValue: RawBuilder<unknown>,
  afterId: RawBuilder<unknown>,
): RawBuilder<SqlBool> {
  const sign = sql.raw(descending ? '<' : '>')
  return value === id
    ? sql<SqlBool>`${sql.ref(id)} ${sign} ${afterId}`
    : sql<SqlBool>`(${sql.ref(value)}, ${sql.ref(id)}) ${sign} (${afterValue}, ${afterId})`
}

/** @returns null without any condition */
export function allOf(conditions: readonly (RawBuilder<SqlBool> | null)[]): RawBuilder<SqlBool> | null {
  const held = conditions.filter(condition => condition !== null)
  return held.length === 0 ? null : sql<SqlBool>`(${sql.join(held, sql` and `)})`
}

export function whereClause(conditions: readonly (RawBuilder<SqlBool> | null)[]): RawBuilder<unknown> {
  const condition = allOf(conditions)
  return condition === null ? sql`` : sql`where ${condition}`
}

/** A list of texts as rows with the column `value`: one parameter, however many they are. */
export function listAsRows(texts: readonly string[], dialect: Dialect): RawBuilder<unknown> {
  const list = JSON.stringify(texts)
  return dialect === 'sqlite'
    ? sql`json_each(${list}) as listed`
    : sql`json_array_elements_text(${list}::json) as listed (value)`
}

/** The values of one column of rows that a statement adds. */
export interface Column {
  readonly values: readonly (string | number | null)[]
  readonly type: 'text' | 'integer' | 'bigint'
}

/** Rows of parameters, one a column, however many rows there are: `reported` with the columns c0, c1, … */
export function rowsFrom(columns: readonly Column[], dialect: Dialect): RawBuilder<unknown> {
  const names = columns.map((_, index) => `c${index}`)
  if (dialect === 'postgres') {
    const lists = columns.map(({ values, type }) => sql`${values}::${sql.raw(type)}[]`)
    return sql`unnest(${sql.join(lists)}) as reported (${sql.raw(names.join(', '))})`
  }
  const rows = (columns[0]?.values ?? []).map((_, row) => columns.map(({ values }) => values[row]))
  const selected = names.map((name, index) => `value ->> ${index} as ${name}`).join(', ')
  return sql`(select ${sql.raw(selected)} from json_each(${JSON.stringify(rows)})) as reported`
}

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
