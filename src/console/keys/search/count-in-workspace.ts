import { type Kysely, sql } from 'kysely'
import type { KeyState } from '../../../domain/key/key-record.ts'
import type { Tables } from '../../platform/database/tables.ts'
import { EXPIRING_SOON_MS } from './key-query.ts'

/** Keys that are counted at most, for a page that is read often: some milliseconds. */
const MAX_COUNTED = 5000
/** Expiring keys that are counted at most. */
export const MAX_EXPIRING = 1000
/** Keys that can be revoked are counted up to here: about 10 ms. */
export const MAX_LIVE = 100_000

export interface WorkspaceKeyCounts {
  /** Null if the workspace has more keys than are counted. */
  readonly states: Readonly<Record<KeyState, number>> | null
  /** Active keys that expire within `EXPIRING_SOON_MS`; one more than `MAX_EXPIRING` at most. */
  readonly expiringSoon: number
}

/** Reads only the index that holds all that decides the state. */
export async function countInWorkspace(
  database: Kysely<Tables>,
  workspaceId: string,
  nowMs: number,
): Promise<WorkspaceKeyCounts> {
  const { rows } = await sql<{ state: KeyState; count: number }>`
    select state, count(*) as count from (
      select case
        when revoked_at_ms is not null then 'revoked'
        when expires_at_ms <= ${nowMs} then 'expired'
        when suspended_at_ms is not null then 'suspended'
        when replaced_by is not null then 'retiring'
        else 'active' end as state
      from keys where workspace_id = ${workspaceId} limit ${MAX_COUNTED + 1}
    ) as counted group by state`.execute(database)
  const states = { active: 0, retiring: 0, suspended: 0, expired: 0, revoked: 0 }
  let total = 0
  for (const { state, count } of rows) {
    states[state] = Number(count)
    total += Number(count)
  }
  const expiringSoon = await countExpiring(database, workspaceId, nowMs)
  return { states: total > MAX_COUNTED ? null : states, expiringSoon }
}

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

/** Keys that are neither revoked nor expired; one more than `MAX_LIVE` at most. */
export async function countLive(
  database: Kysely<Tables>,
  workspaceId: string,
  nowMs: number,
): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from (
      select 1 from keys
      where workspace_id = ${workspaceId} and expires_at_ms > ${nowMs} and revoked_at_ms is null
      limit ${MAX_LIVE + 1}
    ) as counted`.execute(database)
  return Number(rows[0]?.count ?? 0)
}
