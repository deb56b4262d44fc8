import { expressionBuilder, type Kysely, type RawBuilder, sql } from 'kysely'
import type { Clock } from '../../../domain/clock.ts'
import type { KeyState } from '../../../domain/key/key-record.ts'
import type { ControlLogger } from '../../../observability/control-logger.ts'
import { KEY_STATE_LABELS, type Metrics } from '../../../observability/metrics/metrics.ts'
import type { Dialect } from '../../platform/database/database.ts'
import type { Tables } from '../../platform/database/tables.ts'
import { logUpkeepFailed, type Timers } from '../../platform/jobs/timers.ts'
import { EXPIRING_SOON_MS, isSelected, type KeyFilter } from './key-query.ts'
import { rowsWithin, type SearchContext } from './search-keys.ts'

/** Reads every row: often enough for a graph, rarely enough for the load. */
const COUNT_PERIOD_MS = 15_000
/** With millions of keys a count takes seconds: it rests for so many times as long. */
const COUNT_REST = 50
const WEEK_MS = 7 * 86_400_000
const MONTH_MS = 30 * 86_400_000
const DEADLINE_MS = 2000
/** Keys that a statement of SQLite counts, which blocks the event loop meanwhile. */
const COUNTED_AT_ONCE = 10_000

export interface CountParts {
  readonly repository: { countByState(bounds: ExpiryBounds): Promise<KeyCounts> }
  readonly metrics: Pick<Metrics, 'keys'>
  readonly clock: Clock
  readonly timers: Timers
  readonly logger: ControlLogger
}

/**
 * Counts keys by state, so that a scrape waits for no database: now, and again after a rest that begins when a count has ended.
 * @returns ends it
 */
export function startCountingKeys(parts: CountParts): () => void {
  const { clock, timers, logger } = parts
  let isStopped = false
  let cancelNext = () => {}
  const count = async () => {
    const startedMs = clock.monotonicMs()
    await setGauges(parts).catch((error: unknown) => logUpkeepFailed(logger, error))
    if (isStopped) return
    const tookMs = clock.monotonicMs() - startedMs
    cancelNext = timers.after(Math.max(COUNT_PERIOD_MS, tookMs * COUNT_REST), () => void count())
  }
  void count()
  return () => {
    isStopped = true
    cancelNext()
  }
}

async function setGauges({ repository, metrics, clock }: CountParts): Promise<void> {
  const nowMs = clock.wallMs()
  const bounds = { nowMs, weekMs: nowMs + WEEK_MS, monthMs: nowMs + MONTH_MS }
  const counts = await repository.countByState(bounds)
  for (const state of KEY_STATE_LABELS) metrics.keys.set({ state }, counts[state])
}

/** Each key is in exactly one of these. */
export type KeyCounts = Readonly<Record<(typeof KEY_STATE_LABELS)[number], number>>

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
/** Expiring keys of a larger workspace that are counted at most. */
export const MAX_EXPIRING = 1000

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
        and expires_at_ms > ${nowMs} and expires_at_ms <= ${nowMs + EXPIRING_SOON_MS}
        and revoked_at_ms is null and suspended_at_ms is null and replaced_by is null
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
  const row = expressionBuilder<Tables, 'keys'>()
  const soonMs = nowMs + EXPIRING_SOON_MS
  const count = (filter: KeyFilter) =>
    sql`count(*) filter (where ${isSelected(row, { filter, nowMs, soonMs })})`
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
