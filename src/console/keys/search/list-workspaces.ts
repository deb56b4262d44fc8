import { expressionBuilder, type Kysely, type RawBuilder, sql } from 'kysely'
import type { KeyState } from '../../../domain/key/key-record.ts'
import { listOf } from '../../platform/database/first-rows.ts'
import type { Tables } from '../../platform/database/tables.ts'
import { sumInStretches } from './count-rows.ts'
import { isSelected, type KeyFilter } from './key-filter.ts'
import {
  EXPIRING_SOON_MS,
  type WorkspacePage,
  type WorkspaceQuery,
  type WorkspaceSummary,
} from './key-query.ts'
import type { SearchContext } from './ordered-keys.ts'

/** Workspaces that one page examines at most. */
const MAX_EXAMINED = 1000
/** Keys of one workspace that are counted at most, if the page has a bound. */
const MAX_COUNTED = 5000
/** Keys that a statement of SQLite counts, which blocks the event loop meanwhile. */
const COUNTED_AT_ONCE = 20_000

export async function listWorkspaces(
  database: Kysely<Tables>,
  query: WorkspaceQuery,
  context: SearchContext,
): Promise<WorkspacePage> {
  const count = query.text === null ? query.limit + 1 : MAX_EXAMINED
  const examined =
    query.workspaceIds === null
      ? await findWorkspaces(database, query.afterId, count)
      : laterOf(query.workspaceIds, query.afterId)
  const text = query.text?.toLowerCase() ?? ''
  const matching = examined.filter(id => id.toLowerCase().includes(text))
  const shown = matching.slice(0, query.limit)
  const isFull = matching.length > query.limit
  const isBounded = query.workspaceIds === null && examined.length === count
  const endId = isBounded ? (examined.at(-1) ?? null) : null
  return {
    workspaces: await summarize(database, shown, maxCountedOf(query, shown), context),
    nextAfterId: isFull ? (shown.at(-1) ?? null) : endId,
  }
}

/** Each workspace of the page has the same share. */
function maxCountedOf({ maxKeysCounted }: WorkspaceQuery, shown: readonly string[]): number | null {
  if (maxKeysCounted === null) return null
  return Math.min(MAX_COUNTED, Math.floor(maxKeysCounted / Math.max(1, shown.length)))
}

/** Named workspaces are listed also without keys. Ids are ASCII: their order is that of the database. */
function laterOf(workspaceIds: readonly string[], afterId: string | null): string[] {
  return [...new Set(workspaceIds)].filter(id => afterId === null || id > afterId).sort()
}

/** Steps through an index from one workspace to the next, past all keys between them. */
async function findWorkspaces(
  database: Kysely<Tables>,
  afterId: string | null,
  count: number,
): Promise<string[]> {
  const next = (than: ReturnType<typeof sql>) =>
    sql`(select workspace_id from keys where workspace_id > ${than} order by workspace_id limit 1)`
  const { rows } = await sql<{ workspace_id: string }>`
    with recursive step (workspace_id, number) as (
      select ${next(sql`${afterId ?? ''}`)}, 1
      union all
      select ${next(sql`step.workspace_id`)}, number + 1 from step
      where step.workspace_id is not null and number < ${count}
    )
    select workspace_id from step where workspace_id is not null order by number`.execute(database)
  return rows.map(row => row.workspace_id)
}

interface CountRow extends Readonly<Record<KeyState, number>> {
  readonly workspace_id: string
  readonly expiring_soon: number
  readonly counted: number
}

const NO_KEYS = { active: 0, retiring: 0, suspended: 0, expired: 0, revoked: 0, expiring_soon: 0, counted: 0 }

async function summarize(
  database: Kysely<Tables>,
  workspaceIds: readonly string[],
  maxCounted: number | null,
  context: SearchContext,
): Promise<WorkspaceSummary[]> {
  if (workspaceIds.length === 0) return []
  const rows = await countStates(database, workspaceIds, maxCounted, context)
  const counts = new Map(rows.map(row => [row.workspace_id, row]))
  const uses = await findLastUses(database, workspaceIds, context)
  return workspaceIds.map(workspaceId => {
    const { active, retiring, suspended, expired, revoked, expiring_soon, counted } =
      counts.get(workspaceId) ?? NO_KEYS
    const keys = { active, retiring, suspended, expired, revoked }
    const moreThan = maxCounted !== null && counted > maxCounted ? maxCounted : null
    const lastUsedAtMs = uses.get(workspaceId) ?? null
    return { workspaceId, keys, moreThan, expiringSoon: expiring_soon, lastUsedAtMs }
  })
}

/** The states of `keyState`; in the order of an index that holds all that decides them. */
async function countStates(
  database: Kysely<Tables>,
  workspaceIds: readonly string[],
  maxCounted: number | null,
  context: SearchContext,
): Promise<readonly CountRow[]> {
  if (maxCounted !== null) return countIn(database, firstKeys(workspaceIds, maxCounted + 1), context)
  if (context.dialect === 'postgres') return countIn(database, allKeys(workspaceIds), context)
  // SQLite counts a part of each in one statement, and then the rest of large ones.
  const share = Math.floor(COUNTED_AT_ONCE / workspaceIds.length)
  const rows: CountRow[] = []
  for (const row of await countIn(database, firstKeys(workspaceIds, share + 1), context)) {
    rows.push(row.counted > share ? await countLarge(database, row.workspace_id, context) : row)
  }
  return rows
}

async function countIn(
  database: Kysely<Tables>,
  keys: RawBuilder<unknown>,
  context: SearchContext,
): Promise<readonly CountRow[]> {
  const counts = Object.entries(stateCounts(context)).map(
    ([name, count]) => sql`${count} as ${sql.ref(name)}`,
  )
  const { rows } = await sql<CountRow>`
    select workspace_id, ${sql.join(counts)} from ${keys} group by workspace_id`.execute(database)
  return rows
}

async function countLarge(
  database: Kysely<Tables>,
  workspaceId: string,
  context: SearchContext,
): Promise<CountRow> {
  return { workspace_id: workspaceId, ...(await sumInStretches(database, workspaceId, stateCounts(context))) }
}

function stateCounts({ nowMs }: SearchContext) {
  const row = expressionBuilder<Tables, 'keys'>()
  const count = (filter: KeyFilter) =>
    sql`count(*) filter (where ${isSelected(row, { filter, nowMs, soonMs: nowMs + EXPIRING_SOON_MS })})`
  return {
    counted: sql`count(*)`,
    expiring_soon: count('expiring'),
    active: count('active'),
    retiring: count('retiring'),
    suspended: count('suspended'),
    expired: count('expired'),
    revoked: count('revoked'),
  }
}

function allKeys(workspaceIds: readonly string[]): RawBuilder<unknown> {
  return sql`keys where workspace_id in (${sql.join(workspaceIds)})`
}

/** Some keys of each workspace. Neither database has a limit for each group. */
function firstKeys(workspaceIds: readonly string[], limit: number): RawBuilder<unknown> {
  const parts = workspaceIds.map(
    workspaceId => sql`select * from (
      select workspace_id, expires_at_ms, revoked_at_ms, suspended_at_ms, replaced_by
      from keys where workspace_id = ${workspaceId} limit ${limit}) as part`,
  )
  return sql`(${sql.join(parts, sql` union all `)}) as keys`
}

async function findLastUses(
  database: Kysely<Tables>,
  workspaceIds: readonly string[],
  { dialect }: SearchContext,
): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql<{ workspace_id: string; last_used_at_ms: number | null }>`
    select listed.value as workspace_id,
      (select max(last_used_at_ms) from key_use where key_use.workspace_id = listed.value) as last_used_at_ms
    from ${listOf(workspaceIds, dialect)}`.execute(database)
  return new Map(rows.flatMap(row => (row.last_used_at_ms ? [[row.workspace_id, row.last_used_at_ms]] : [])))
}
