import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Clock } from '../../../domain/clock.ts'
import type { KeyState } from '../../../domain/key/key-record.ts'
import type { KEY_STATE_LABELS } from '../../../observability/metrics/metrics.ts'
import type { Dialect } from '../../platform/database/database.ts'
import { isInState, isLive } from '../../platform/database/key-row.ts'
import { listAsRows, whereClause } from '../../platform/database/query-parts.ts'
import type { Tables } from '../../platform/database/tables.ts'
import type { UnusedCounts } from '../../usage/index.ts'
import { EXPIRING_SOON_MS, type KeyFilter, type KeySelector, MAX_EXPIRING } from './key-query.ts'
import {
  findByIndex,
  inWorkspaces,
  keyCondition,
  keysAmong,
  rowsWithin,
  type SearchContext,
} from './search-keys.ts'

const DAY_MS = 86_400_000
export const DEADLINE_MS = 2000
/** Keys of one statement of SQLite, which blocks the event loop meanwhile: of an index alone, and with what a condition reads. */
const COUNTED_AT_ONCE = 10_000
export const EXAMINED_AT_ONCE = 2500

export type CountContext = SearchContext & { readonly clock: Clock }

/** @returns null if there were too many to count in two seconds */
export async function countKeys(
  database: Kysely<Tables>,
  selector: KeySelector,
  context: CountContext,
): Promise<number | null> {
  if (selector.workspaceIds?.length === 0) return 0
  if (context.dialect === 'sqlite') return countInParts(database, selector, context)
  const where = whereClause([
    inWorkspaces(selector.workspaceIds, 'postgres'),
    keyCondition(selector, context.nowMs, 'postgres'),
  ])
  const matches = sql<{ count: number }>`select count(*) as count from keys ${where}`
  const rows = await rowsWithin(database, { statement_timeout: DEADLINE_MS }, matches)
  return rows === null ? null : (rows[0]?.count ?? 0)
}

async function readCount(database: Kysely<Tables>, query: RawBuilder<unknown>): Promise<number> {
  const { rows } = await sql<{ count: number }>`${query}`.execute(database)
  return Number(rows[0]?.count ?? 0)
}

async function countInParts(
  database: Kysely<Tables>,
  selector: KeySelector,
  context: CountContext,
): Promise<number | null> {
  const { clock, dialect, nowMs } = context
  const endMs = clock.monotonicMs() + DEADLINE_MS
  const ids = await findByIndex(database, selector, context)
  const { workspaceIds } = selector
  if (ids !== null) {
    return readCount(database, sql`select count(*) as count from ${keysAmong(ids, selector, context)}`)
  }
  const condition = keyCondition(selector, nowMs, dialect)
  let total = 0
  let left: Uncounted | null = {
    workspaceIds: workspaceIds === null ? null : [...new Set(workspaceIds)],
    afterId: '',
  }
  do {
    if (clock.monotonicMs() > endMs) return null
    const { matches, end }: Counted = await countPart(database, left, condition)
    total += matches
    left =
      end === null ? null : { workspaceIds: left.workspaceIds?.slice(end.place) ?? null, afterId: end.id }
  } while (left !== null)
  return total
}

/** Keys of the first workspace after an id, and all of the others; null: of all workspaces. */
interface Uncounted {
  readonly workspaceIds: readonly string[] | null
  readonly afterId: string
}

interface Counted {
  readonly matches: number
  /** The place of the workspace in the list that counting stopped in, and the last id; null: nothing is left. */
  readonly end: { readonly place: number; readonly id: string } | null
}

/** SQLite runs a cross join as it is written: workspace by workspace, and each in the order of ids. */
async function countPart(
  database: Kysely<Tables>,
  { workspaceIds, afterId }: Uncounted,
  condition: RawBuilder<unknown> | null,
): Promise<Counted> {
  const count = condition === null ? COUNTED_AT_ONCE : EXAMINED_AT_ONCE
  const columns = condition === null ? sql`keys.id` : sql`keys.*`
  const keys =
    workspaceIds === null
      ? sql`select ${columns}, 0 as place from keys where id > ${afterId} order by id`
      : sql`select ${columns}, listed.key as place
          from ${listAsRows(workspaceIds, 'sqlite')} cross join keys indexed by keys_by_workspace
          where keys.workspace_id = listed.value and keys.id > case listed.key when 0 then ${afterId} else '' end`
  const { rows } = await sql<{ examined: number; matches: number; end_at: string }>`
    select count(*) as examined, max(printf('%09d %s', place, id)) as end_at,
      ${condition === null ? sql`count(*)` : sql`count(case when ${condition} then 1 end)`} as matches
    from (${keys} limit ${count}) as keys`.execute(database)
  const [row] = rows
  if (row === undefined) throw new Error('A count returned no row')
  const [place, id = ''] = row.examined < count ? [] : row.end_at.split(' ')
  return { matches: row.matches, end: place === undefined ? null : { place: Number(place), id } }
}

/** Keys that can be revoked are counted up to here: about 10 ms. */
export const MAX_LIVE = 100_000

/** Keys that are neither revoked nor expired; one more than `MAX_LIVE` at most. */
export async function countLive(
  database: Kysely<Tables>,
  workspaceId: string,
  nowMs: number,
): Promise<number> {
  return readCount(
    database,
    sql`select count(*) as count from (
      select 1 from keys
      where workspace_id = ${workspaceId} and ${isLive(nowMs)}
      limit ${MAX_LIVE + 1}) as counted`,
  )
}

/** Keys examined at most, longest unused first: about 10 ms. */
const MAX_UNUSED_EXAMINED = 2500

/** Active keys of a workspace by their last use, from an index of it. */
export async function countUnused(
  database: Kysely<Tables>,
  workspaceId: string,
  nowMs: number,
): Promise<UnusedCounts> {
  const [days30, days90] = [nowMs - 30 * DAY_MS, nowMs - 90 * DAY_MS]
  const { rows } = await sql<Record<'examined' | 'never' | 'days30' | 'days90', number>>`
    select count(*) as examined,
      count(case when is_active and used_at_ms = 0 then 1 end) as never,
      count(case when is_active and created_at_ms < ${days30} then 1 end) as days30,
      count(case when is_active and created_at_ms < ${days90} and used_at_ms < ${days90} then 1 end) as days90
    from (
      select created_at_ms, used_at_ms, ${isLive(nowMs)} and suspended_at_ms is null and replaced_by is null as is_active
      from (
        select key_id, last_used_at_ms as used_at_ms from key_use
        where workspace_id = ${workspaceId} and last_used_at_ms < ${days30}
        order by last_used_at_ms, key_id limit ${MAX_UNUSED_EXAMINED}
      ) as unused join keys on keys.id = unused.key_id
    ) as examined`.execute(database)
  const row = rows[0]
  return {
    never: Number(row?.never ?? 0),
    '30d': Number(row?.days30 ?? 0),
    '90d': Number(row?.days90 ?? 0),
    isPartial: Number(row?.examined ?? 0) === MAX_UNUSED_EXAMINED,
  }
}

/** Each key is in exactly one of these. */
type KeyCounts = Readonly<Record<(typeof KEY_STATE_LABELS)[number], number>>

/** In ms since the epoch: a working key that expires before `weekMs` is `expiring`, before `monthMs` `expiring_30d`. */
export interface ExpiryBounds {
  readonly nowMs: number
  readonly weekMs: number
  readonly monthMs: number
}

/** A revoked key stays revoked after its expiry. */
export async function countByState(
  database: Kysely<Tables>,
  { nowMs, weekMs, monthMs }: ExpiryBounds,
  dialect: Dialect,
): Promise<KeyCounts> {
  const state = sql<keyof KeyCounts>`case
    when revoked_at_ms is not null then 'revoked'
    when expires_at_ms <= ${nowMs} then 'expired'
    when suspended_at_ms is not null then 'suspended'
    when expires_at_ms <= ${weekMs} then 'expiring'
    when expires_at_ms <= ${monthMs} then 'expiring_30d'
    else 'active' end`
  if (dialect === 'sqlite') {
    const count = (name: keyof KeyCounts) => sql`count(case when ${state} = ${name} then 1 end)`
    return sumInParts(database, null, {
      active: count('active'),
      expiring_30d: count('expiring_30d'),
      expiring: count('expiring'),
      suspended: count('suspended'),
      expired: count('expired'),
      revoked: count('revoked'),
    })
  }
  const rows = await database
    .selectFrom('keys')
    .select(({ fn }) => [state.as('state'), fn.countAll<number>().as('count')])
    .groupBy('state')
    .execute()
  const counts = { active: 0, expiring_30d: 0, expiring: 0, suspended: 0, expired: 0, revoked: 0 }
  for (const row of rows) counts[row.state] = Number(row.count)
  return counts
}

/** @returns null if PostgreSQL has too many to count in two seconds */
export async function countForSync(
  database: Kysely<Tables>,
  expiresAfterMs: number,
  dialect: Dialect,
): Promise<number | null> {
  if (dialect === 'sqlite') {
    const later = sql`count(case when expires_at_ms > ${expiresAfterMs} then 1 end)`
    return (await sumInParts(database, null, { later })).later
  }
  const later = sql<{
    count: number
  }>`select count(*) as count from keys where expires_at_ms > ${expiresAfterMs}`
  const rows = await rowsWithin(database, { statement_timeout: DEADLINE_MS }, later)
  return rows === null ? null : (rows[0]?.count ?? 0)
}

/** Keys of a workspace that are counted at most, for pages that are read often: some milliseconds. */
export const MAX_COUNTED = 5000

export interface WorkspaceKeyCounts {
  /** Null if the workspace has more keys than are counted. */
  readonly states: Readonly<Record<KeyState, number>> | null
  /** Active keys that expire within `EXPIRING_SOON_MS`. */
  readonly expiringSoon: number
}

export const NO_KEYS = {
  states: { active: 0, retiring: 0, suspended: 0, expired: 0, revoked: 0 },
  expiringSoon: 0,
} satisfies WorkspaceKeyCounts

export async function countInWorkspace(
  database: Kysely<Tables>,
  workspaceId: string,
  context: SearchContext,
): Promise<WorkspaceKeyCounts> {
  const counts = await countStates(database, [workspaceId], MAX_COUNTED, context)
  const { states, expiringSoon }: WorkspaceKeyCounts = counts.get(workspaceId) ?? NO_KEYS
  if (states !== null) return { states, expiringSoon }
  return { states, expiringSoon: await countExpiring(database, workspaceId, context.nowMs) }
}

/** One more than `MAX_EXPIRING` at most. */
async function countExpiring(database: Kysely<Tables>, workspaceId: string, nowMs: number): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from (
      select 1 from keys where workspace_id = ${workspaceId}
        and ${isLive(nowMs)} and expires_at_ms <= ${nowMs + EXPIRING_SOON_MS}
        and suspended_at_ms is null and replaced_by is null
      limit ${MAX_EXPIRING + 1}
    ) as counted`.execute(database)
  return Number(rows[0]?.count ?? 0)
}

interface CountRow extends Readonly<Record<KeyState, number>> {
  readonly workspace_id: string
  readonly expiring: number
  readonly counted: number
}

/**
 * Keys by the states of `keyState`, of those of the workspaces that have keys.
 * @param maxCounted keys of each workspace; null: all
 */
export async function countStates(
  database: Kysely<Tables>,
  workspaceIds: readonly string[],
  maxCounted: number | null,
  { nowMs, dialect }: Pick<SearchContext, 'nowMs' | 'dialect'>,
): Promise<ReadonlyMap<string, WorkspaceKeyCounts>> {
  const moment = { nowMs, soonMs: nowMs + EXPIRING_SOON_MS }
  const count = (filter: KeyFilter) => sql`count(*) filter (where ${isInState(filter, moment)})`
  const sums = {
    counted: sql`count(*)`,
    expiring: count('expiring'),
    active: count('active'),
    retiring: count('retiring'),
    suspended: count('suspended'),
    expired: count('expired'),
    revoked: count('revoked'),
  }
  const columns = sql.join(Object.entries(sums).map(([name, sum]) => sql`${sum} as ${sql.ref(name)}`))
  // SQLite counts a part of each in one statement, and then the rest of large ones.
  const share = Math.floor(COUNTED_AT_ONCE / workspaceIds.length)
  const most = maxCounted ?? (dialect === 'sqlite' ? share : null)
  const keys = most === null ? allKeys(workspaceIds) : firstKeys(workspaceIds, most + 1)
  const { rows } = await sql<CountRow>`
    select workspace_id, ${columns} from ${keys} group by workspace_id`.execute(database)
  const counts = new Map<string, WorkspaceKeyCounts>()
  for (const counted of rows) {
    const workspaceId = counted.workspace_id
    const isLarge = most !== null && counted.counted > most
    const all = isLarge && maxCounted === null ? await sumInParts(database, workspaceId, sums) : counted
    const { active, retiring, suspended, expired, revoked } = all
    const states = isLarge && maxCounted !== null ? null : { active, retiring, suspended, expired, revoked }
    counts.set(workspaceId, { states, expiringSoon: all.expiring })
  }
  return counts
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

/**
 * Sums over the keys of SQLite in statements of a bounded size. They read only the index that holds all that decides a
 * key's state: `workspace_id`, `expires_at_ms`, `id`, `revoked_at_ms`, `suspended_at_ms` and `replaced_by`.
 * @param workspaceId null: all
 * @param sums numbers by the names of their columns
 */
async function sumInParts<Name extends string>(
  database: Kysely<Tables>,
  workspaceId: string | null,
  sums: Readonly<Record<Name, RawBuilder<unknown>>>,
): Promise<Record<Name, number>> {
  // Object.keys() forgets the type of names.
  const names = Object.keys(sums) as Name[]
  const totals = new Map<Name, number>(names.map(name => [name, 0]))
  const columns = sql.join(names.map(name => sql`${sums[name]} as ${sql.ref(name)}`))
  const own = workspaceId === null ? sql`` : sql`workspace_id = ${workspaceId} and`
  const order = (direction: string) =>
    sql.raw(`order by workspace_id ${direction}, expires_at_ms ${direction}, id ${direction}`)
  let end: readonly unknown[] = ['', Number.MIN_SAFE_INTEGER, '']
  for (;;) {
    const { rows } = await sql<Record<Name, number> & { examined: number; end_at: string }>`
      with part as (
        select workspace_id, expires_at_ms, id, revoked_at_ms, suspended_at_ms, replaced_by
        from keys indexed by workspace_keys_by_expiry
        where ${own} (workspace_id, expires_at_ms, id) > (${sql.join(end)})
        ${order('asc')} limit ${COUNTED_AT_ONCE})
      select ${columns}, count(*) as examined,
        (select json_array(workspace_id, expires_at_ms, id) from part ${order('desc')} limit 1) as end_at
      from part`.execute(database)
    const [row] = rows
    if (row === undefined) throw new Error('A sum returned no row')
    for (const name of names) totals.set(name, (totals.get(name) ?? 0) + row[name])
    if (row.examined < COUNTED_AT_ONCE) break
    // As the statement wrote it.
    end = JSON.parse(row.end_at) as unknown[]
  }
  return Object.fromEntries(totals) as Record<Name, number>
}
