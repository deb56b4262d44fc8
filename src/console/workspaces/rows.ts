import { type Kysely, sql } from 'kysely'
import type { KeyState } from '../../domain/key/key-record.ts'
import { MAX_COUNTED, NO_KEYS, type WorkspaceKeyCounts } from '../keys/index.ts'
import type { WorkspaceNames } from '../platform/access/principal.ts'
import type { Database } from '../platform/database/database.ts'
import { listAsRows, takePage } from '../platform/database/query-parts.ts'
import type { Tables } from '../platform/database/tables.ts'

/** Workspaces that one page examines at most. */
const MAX_EXAMINED = 1000

/** One page of workspaces that have keys, by id. */
export interface WorkspaceQuery {
  /** Null: all workspaces. */
  readonly workspaceIds: readonly string[] | null
  /** A part of the workspace id or its name, in any case. */
  readonly text: string | null
  /** Of some workspaces, by their ids. */
  readonly names?: WorkspaceNames
  readonly limit: number
  readonly afterId: string | null
  /** Keys that are counted for the page, in all; null: every key. */
  readonly maxKeysCounted: number | null
}

export interface WorkspaceSummary {
  readonly workspaceId: string
  readonly keys: Readonly<Record<KeyState, number>>
  /** The workspace has more keys than this, and no more were counted; null: all were. */
  readonly moreThan: number | null
  /** Active keys that expire within `EXPIRING_SOON_MS`. */
  readonly expiringSoon: number
  readonly lastUsedAtMs: number | null
}

export interface WorkspacePage {
  readonly workspaces: readonly WorkspaceSummary[]
  /** Where the next page starts; null on the last. As with keys, a page can be short. */
  readonly nextAfterId: string | null
}

export interface WorkspaceSources {
  readonly database: Pick<Database, 'reader' | 'dialect'>
  /** The keys that are counted. */
  readonly search: {
    countStates(
      workspaceIds: readonly string[],
      maxCounted: number | null,
    ): Promise<ReadonlyMap<string, WorkspaceKeyCounts>>
  }
}

export async function listWorkspaces(
  sources: WorkspaceSources,
  query: WorkspaceQuery,
): Promise<WorkspacePage> {
  const count = query.text === null ? query.limit + 1 : MAX_EXAMINED
  const examined =
    query.workspaceIds === null
      ? await findWorkspaces(sources.database.reader, query.afterId, count)
      : laterIds(query.workspaceIds, query.afterId)
  const text = query.text?.toLowerCase() ?? ''
  const names = new Map(Object.entries(query.names ?? {}))
  const matching = examined.filter(id => `${id}\n${names.get(id) ?? ''}`.toLowerCase().includes(text))
  const isBounded = query.workspaceIds === null && examined.length === count
  const endId = isBounded ? (examined.at(-1) ?? null) : null
  const { rows: shown, next } = takePage(matching, query.limit, id => id, endId)
  return {
    workspaces: await summarize(sources, shown, countLimit(query, shown)),
    nextAfterId: next,
  }
}

/** Each workspace of the page has the same share. */
function countLimit({ maxKeysCounted }: WorkspaceQuery, shown: readonly string[]): number | null {
  if (maxKeysCounted === null) return null
  return Math.min(MAX_COUNTED, Math.floor(maxKeysCounted / Math.max(1, shown.length)))
}

/** Named workspaces are listed also without keys. Ids are ASCII: their order is that of the database. */
function laterIds(workspaceIds: readonly string[], afterId: string | null): string[] {
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

async function summarize(
  { database, search }: WorkspaceSources,
  workspaceIds: readonly string[],
  maxCounted: number | null,
): Promise<WorkspaceSummary[]> {
  if (workspaceIds.length === 0) return []
  const counts = await search.countStates(workspaceIds, maxCounted)
  const uses = await findLastUses(database, workspaceIds)
  return workspaceIds.map(workspaceId => {
    const { states, expiringSoon }: WorkspaceKeyCounts = counts.get(workspaceId) ?? NO_KEYS
    const lastUsedAtMs = uses.get(workspaceId) ?? null
    const moreThan = states === null ? maxCounted : null
    return { workspaceId, keys: states ?? NO_KEYS.states, moreThan, expiringSoon, lastUsedAtMs }
  })
}

async function findLastUses(
  { reader, dialect }: WorkspaceSources['database'],
  workspaceIds: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql<{ workspace_id: string; last_used_at_ms: number | null }>`
    select listed.value as workspace_id,
      (select max(last_used_at_ms) from key_use where key_use.workspace_id = listed.value) as last_used_at_ms
    from ${listAsRows(workspaceIds, dialect)}`.execute(reader)
  return new Map(rows.flatMap(row => (row.last_used_at_ms ? [[row.workspace_id, row.last_used_at_ms]] : [])))
}
