import { type Kysely, sql } from 'kysely'
import type { Tables } from '../../platform/database/tables.ts'

export const UNUSED_DAYS = [30, 90] as const
const DAY_MS = 86_400_000
/** Keys examined at most, longest unused first: about 10 ms. */
const MAX_EXAMINED = 2500

/** Active keys that nothing seems to use. A key that was never used counts in all three. */
export interface UnusedCounts {
  readonly never: number
  /** Not used in the last 30 days. */
  readonly days30: number
  readonly days90: number
  /** Not all were examined: there can be more. */
  readonly isPartial: boolean
}

/** Active keys of a workspace by their last use, from an index of it. */
export async function countUnused(
  database: Kysely<Tables>,
  workspaceId: string,
  nowMs: number,
): Promise<UnusedCounts> {
  const [days30, days90] = UNUSED_DAYS.map(days => nowMs - days * DAY_MS)
  const { rows } = await sql<Record<'examined' | 'never' | 'days30' | 'days90', number>>`
    select count(*) as examined,
      count(case when is_active and used_at_ms = 0 then 1 end) as never,
      count(case when is_active then 1 end) as days30,
      count(case when is_active and used_at_ms < ${days90} then 1 end) as days90
    from (
      select used_at_ms, revoked_at_ms is null and suspended_at_ms is null and replaced_by is null
        and expires_at_ms > ${nowMs} as is_active
      from (
        select key_id, last_used_at_ms as used_at_ms from key_use
        where workspace_id = ${workspaceId} and last_used_at_ms < ${days30}
        order by last_used_at_ms, key_id limit ${MAX_EXAMINED}
      ) as unused join keys on keys.id = unused.key_id
    ) as examined`.execute(database)
  const row = rows[0]
  return {
    never: Number(row?.never ?? 0),
    days30: Number(row?.days30 ?? 0),
    days90: Number(row?.days90 ?? 0),
    isPartial: Number(row?.examined ?? 0) === MAX_EXAMINED,
  }
}
