import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { KEY_STATE_LABELS } from '../../../observability/metrics/metrics.ts'
import type { Dialect } from '../../platform/database/database.ts'
import type { Tables } from '../../platform/database/tables.ts'

/** A statement for so many keys takes well under a second. */
const COUNTED_EXACTLY = 1_000_000
/** Keys of one statement: some milliseconds of the event loop. */
const EXAMINED_AT_ONCE = 10_000

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
    return sumInStretches(database, null, {
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

/** Beyond a million keys on PostgreSQL, the estimate of its statistics: counting could take longer than a statement may. */
export async function countForSync(
  database: Kysely<Tables>,
  expiresAfterMs: number,
  dialect: Dialect,
): Promise<number> {
  if (dialect === 'sqlite') {
    const later = sql`count(case when expires_at_ms > ${expiresAfterMs} then 1 end)`
    return (await sumInStretches(database, null, { later })).later
  }
  const estimate = await estimateForSync(database, expiresAfterMs)
  if (estimate > COUNTED_EXACTLY) return estimate
  const query = database.selectFrom('keys').select(({ fn }) => fn.countAll<number>().as('count'))
  return (await query.where('expires_at_ms', '>', expiresAfterMs).executeTakeFirstOrThrow()).count
}

async function estimateForSync(database: Kysely<Tables>, expiresAfterMs: number): Promise<number> {
  const { rows } = await sql<{ plan: readonly [{ Plan: { 'Plan Rows': number } }] }>`
    explain (format json) select 1 from keys where expires_at_ms > ${sql.lit(expiresAfterMs)}`.execute(
    database,
  )
  // PostgreSQL names the column `QUERY PLAN`.
  const [plan] = Object.values(rows[0] ?? {})
  return plan?.[0].Plan['Plan Rows'] ?? 0
}

/**
 * Sums over the keys of SQLite in statements of a bounded size. They read only the index that holds all that decides a
 * key's state: `workspace_id`, `expires_at_ms`, `id`, `revoked_at_ms`, `suspended_at_ms` and `replaced_by`.
 * @param workspaceId null: all
 * @param sums numbers by the names of their columns
 */
export async function sumInStretches<Name extends string>(
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
      with stretch as (
        select workspace_id, expires_at_ms, id, revoked_at_ms, suspended_at_ms, replaced_by
        from keys indexed by workspace_keys_by_expiry
        where ${own} (workspace_id, expires_at_ms, id) > (${sql.join(end)})
        ${order('asc')} limit ${EXAMINED_AT_ONCE})
      select ${columns}, count(*) as examined,
        (select json_array(workspace_id, expires_at_ms, id) from stretch ${order('desc')} limit 1) as end_at
      from stretch`.execute(database)
    const [row] = rows
    if (row === undefined) throw new Error('A sum returned no row')
    for (const name of names) totals.set(name, (totals.get(name) ?? 0) + row[name])
    if (row.examined < EXAMINED_AT_ONCE) break
    // As the statement wrote it.
    end = JSON.parse(row.end_at) as unknown[]
  }
  return Object.fromEntries(totals) as Record<Name, number>
}
