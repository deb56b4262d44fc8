import { type Kysely, type RawBuilder, type SqlBool, sql, type Transaction } from 'kysely'
import { listOf } from '../../platform/database/first-rows.ts'
import { MAY_TIME_OUT, QUERY_CANCELED } from '../../platform/database/postgres/errors.ts'
import type { Tables } from '../../platform/database/tables.ts'
import {
  type Condition,
  containing,
  inWorkspaces,
  SEARCHED_TEXT,
  timeRange,
  whereClauseOf,
} from './key-conditions.ts'
import type { KeySelector } from './key-query.ts'
import type { SearchBounds, SearchContext } from './ordered-keys.ts'

const TEXT_TIMEOUT_MS = 200

/**
 * Looks for a single condition that few keys meet, by its index.
 * @returns the ids of these keys, which the other conditions must still be applied to; null if each is met by many
 */
export async function findCandidates(
  database: Kysely<Tables>,
  selector: KeySelector,
  context: SearchContext,
): Promise<readonly string[] | null> {
  const isOfSeveral = selector.workspaceIds !== null && selector.workspaceIds.length !== 1
  for (const range of rangesOf(selector, context.nowMs)) {
    if (isOfSeveral && !range.isByWorkspace) continue
    const ids = await idsOf(database, rangeQuery(range, selector.workspaceIds, context))
    if (ids.length <= context.bounds.candidates) return ids
  }
  if (selector.text === null) return null
  const ids = await findByText(database, selector.text, context)
  return ids === null || ids.length > context.bounds.candidates ? null : ids
}

/** Rows that an index holds together, in its order: so the planner of PostgreSQL reads no more than the limit. */
interface Range {
  readonly table: 'keys' | 'key_use'
  readonly id: string
  readonly condition: Condition
  readonly order: readonly string[]
  /** A partial index, which SQLite, without statistics, takes for no better than others. */
  readonly partialIndex?: string
  /** Whether an index holds the rows of each workspace together. */
  readonly isByWorkspace: boolean
}

function rangesOf(selector: KeySelector, nowMs: number): Range[] {
  const { state } = selector
  const ranges: Range[] = []
  const add = (condition: Condition, order: readonly string[], partialIndex?: string) =>
    ranges.push({
      table: 'keys',
      id: 'id',
      condition,
      order,
      isByWorkspace: partialIndex !== 'keys_replaced',
      ...(partialIndex === undefined ? {} : { partialIndex }),
    })
  if (state === 'revoked') add(sql`revoked_at_ms is not null`, ['workspace_id', 'id'], 'keys_revoked')
  if (state === 'suspended') {
    add(sql`suspended_at_ms is not null and revoked_at_ms is null`, ['workspace_id', 'id'], 'keys_suspended')
  }
  if (state === 'retiring') {
    const isReplaced = sql<SqlBool>`replaced_by is not null and revoked_at_ms is null`
    add(sql`${isReplaced} and expires_at_ms > ${nowMs}`, ['expires_at_ms'], 'keys_replaced')
  }
  const expiry = timeRange(selector, 'expiresAt', nowMs)
  if (expiry !== null) add(expiry, ['expires_at_ms'])
  const creation = timeRange(selector, 'createdAt', nowMs)
  if (creation !== null) add(creation, ['created_at_ms'])
  const use = timeRange(selector, 'lastUsedAt', nowMs)
  if (use !== null) {
    ranges.push({
      table: 'key_use',
      id: 'key_id',
      condition: use,
      order: ['last_used_at_ms'],
      isByWorkspace: true,
    })
  }
  return ranges
}

function rangeQuery(
  { table, id, condition, order, partialIndex }: Range,
  workspaceIds: readonly string[] | null,
  { bounds, dialect }: SearchContext,
): RawBuilder<IdRow> {
  const isForced = dialect === 'sqlite' && partialIndex !== undefined
  const from = sql`${sql.table(table)} ${isForced ? sql`indexed by ${sql.ref(partialIndex)}` : sql``}`
  const columns = sql.join(order.map(column => sql.ref(column)))
  const limit = sql`limit ${bounds.candidates + 1}`
  if (workspaceIds === null || workspaceIds.length === 1) {
    const where = whereClauseOf([inWorkspaces('workspace_id', workspaceIds, dialect), condition])
    return sql`select ${sql.ref(id)} as id from ${from} ${where} order by ${columns} ${limit}`
  }
  const ofOne = whereClauseOf([sql<SqlBool>`workspace_id = listed.value`, condition])
  const listed = listOf([...new Set(workspaceIds)], dialect)
  return dialect === 'sqlite'
    ? sql`select ${sql.ref(`${table}.${id}`)} as id from ${listed} cross join ${from} ${ofOne} ${limit}`
    : sql`select own.id from ${listed}
        cross join lateral (
          select ${sql.ref(id)} as id from ${from} ${ofOne} order by ${columns} ${limit}) as own ${limit}`
}

interface IdRow {
  readonly id: string
}

async function idsOf(database: Kysely<Tables>, query: RawBuilder<IdRow>): Promise<string[]> {
  return (await query.execute(database)).rows.map(({ id }) => id)
}

/** @returns null without an index, or if it cannot tell in time */
async function findByText(
  database: Kysely<Tables>,
  text: string,
  { dialect, hasTextIndex, bounds }: SearchContext,
): Promise<string[] | null> {
  if (dialect === 'postgres') return hasTextIndex ? findInPostgres(database, text, bounds) : null
  const trigrams = asciiTrigrams(text)
  if (trigrams.length === 0) return null
  const match = trigrams.map(trigram => `"${trigram.replaceAll('"', '""')}"`).join(' AND ')
  return idsOf(
    database,
    sql`select key_numbers.key_id as id
      from (select rowid as number from key_texts where key_texts match ${match} limit ${bounds.candidates + 1}) as matching
      cross join key_numbers where key_numbers.number = matching.number`,
  )
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

/** The index returns all matches at once: a time limit bounds what a frequent text costs. */
async function findInPostgres(
  database: Kysely<Tables>,
  text: string,
  bounds: SearchBounds,
): Promise<string[] | null> {
  // Shorter texts have no trigram, and the index would be read from end to end.
  if ([...text].length < 3) return null
  try {
    return await database.transaction().execute(async tx => {
      await sql`set local enable_seqscan = off`.execute(tx)
      await limitTime(tx, TEXT_TIMEOUT_MS)
      return idsOf(
        tx,
        sql`${sql.raw(MAY_TIME_OUT)} select id from keys where ${SEARCHED_TEXT.postgres} ilike ${containing(text)} limit ${bounds.candidates + 1}`,
      )
    })
  } catch (error) {
    if (isCanceled(error)) return null
    throw error
  }
}

/** PostgreSQL cancels a later statement of this transaction that takes longer: begin it with `MAY_TIME_OUT`. */
export async function limitTime(tx: Transaction<Tables>, ms: number): Promise<void> {
  await sql`set local statement_timeout = ${sql.lit(ms)}`.execute(tx)
}

/** Whether an error says that a statement was canceled. */
export function isCanceled(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === QUERY_CANCELED
}
