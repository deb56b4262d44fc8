import { type Kysely, sql } from 'kysely'
import type { KeyState } from '../../../domain/key/key-record.ts'
import type { Tables } from '../database/tables.ts'
import {
  EXPIRING_SOON_MS,
  type WorkspacePage,
  type WorkspaceQuery,
  type WorkspaceSummary,
} from './key-query.ts'
import type { SearchContext } from './ordered-keys.ts'

/** Workspaces that one page examines at most. */
const MAX_EXAMINED = 1000

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
    workspaces: await summarize(database, shown, context),
    nextAfterId: isFull ? (shown.at(-1) ?? null) : endId,
  }
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

interface CountRow {
  readonly workspace_id: string
  readonly state: KeyState | 'expiring'
  readonly count: number
}

const NO_KEYS = { active: 0, retiring: 0, suspended: 0, expired: 0, revoked: 0 }

async function summarize(
  database: Kysely<Tables>,
  workspaceIds: readonly string[],
  context: SearchContext,
): Promise<WorkspaceSummary[]> {
  if (workspaceIds.length === 0) return []
  const counts = Map.groupBy(await countStates(database, workspaceIds, context), row => row.workspace_id)
  const uses = await findLastUses(database, workspaceIds, context)
  return workspaceIds.map(workspaceId => {
    const keys = { ...NO_KEYS }
    let expiringSoon = 0
    for (const { state, count } of counts.get(workspaceId) ?? []) {
      keys[state === 'expiring' ? 'active' : state] += count
      if (state === 'expiring') expiringSoon += count
    }
    return { workspaceId, keys, expiringSoon, lastUsedAtMs: uses.get(workspaceId) ?? null }
  })
}

/** The states of `keyState`, with `expiring` apart from `active`. */
async function countStates(
  database: Kysely<Tables>,
  workspaceIds: readonly string[],
  { nowMs }: SearchContext,
): Promise<readonly CountRow[]> {
  const { rows } = await sql<CountRow>`
    select workspace_id, case
      when revoked_at_ms is not null then 'revoked'
      when expires_at_ms <= ${nowMs} then 'expired'
      when suspended_at_ms is not null then 'suspended'
      when replaced_by is not null then 'retiring'
      when expires_at_ms <= ${nowMs + EXPIRING_SOON_MS} then 'expiring'
      else 'active' end as state, count(*) as count
    from keys where workspace_id in (${sql.join(workspaceIds)})
    group by 1, 2`.execute(database)
  return rows
}

async function findLastUses(
  database: Kysely<Tables>,
  workspaceIds: readonly string[],
  { dialect }: SearchContext,
): Promise<ReadonlyMap<string, number>> {
  const list = JSON.stringify(workspaceIds)
  const ids =
    dialect === 'sqlite'
      ? sql`json_each(${list}) as named`
      : sql`json_array_elements_text(${list}::json) as named (value)`
  const { rows } = await sql<{ workspace_id: string; last_used_at_ms: number | null }>`
    select named.value as workspace_id,
      (select max(last_used_at_ms) from key_use where key_use.workspace_id = named.value) as last_used_at_ms
    from ${ids}`.execute(database)
  return new Map(rows.flatMap(row => (row.last_used_at_ms ? [[row.workspace_id, row.last_used_at_ms]] : [])))
}
