import { type Kysely, sql } from 'kysely'
import type { Clock } from '../../domain/clock.ts'
import type { Database } from '../registry/database/database.ts'
import type { Tables } from '../registry/database/tables.ts'
import { listRefusals, type RefusalPage, type RefusalPosition } from './refusal-rows.ts'
import { pointsOf, type UsagePoint } from './usage-points.ts'
import type { UsageRange } from './usage-range.ts'

const OF_WORKSPACE = ''
/** A bound on what a page reads: about 10 ms. */
export const RANKED_KEYS = 500

/** Requests of a key or workspace. */
export interface RequestsOf {
  /** Its id. */
  readonly name: string
  readonly requests: number
  /** Those with the code `ok`. */
  readonly served: number
}

/** What pages and the admin API ask about counts and refusals. */
export interface UsageQueries {
  usageOfKey(
    key: { readonly workspaceId: string; readonly id: string },
    range: UsageRange,
  ): Promise<UsagePoint[]>
  /** With what gateways could not count by key. */
  usageOfWorkspace(workspaceId: string, range: UsageRange): Promise<UsagePoint[]>
  /** The keys with the most requests, the busiest first, among the `RANKED_KEYS` that were used last. */
  busiestKeys(workspaceId: string, range: UsageRange, limit: number): Promise<RequestsOf[]>
  /** @param workspaces null for all */
  busiestWorkspaces(
    workspaces: readonly string[] | null,
    range: UsageRange,
    limit: number,
  ): Promise<RequestsOf[]>
  listRefusals(page: {
    readonly workspaceId: string
    readonly limit: number
    readonly after: RefusalPosition | null
  }): Promise<RefusalPage>
  /** When the last report of a gateway was stored; null if there is none of the last days. */
  asOfMs(): Promise<number | null>
}

export function createUsageQueries({ reader }: Pick<Database, 'reader'>, clock: Clock): UsageQueries {
  return {
    usageOfKey: async ({ workspaceId, id }, range) =>
      pointsOf(range, await rowsOf(reader, workspaceId, id, range)),
    usageOfWorkspace: async (workspaceId, range) =>
      pointsOf(range, await rowsOf(reader, workspaceId, OF_WORKSPACE, range)),
    busiestKeys: (workspaceId, range, limit) => busiestKeys(reader, workspaceId, range, limit),
    busiestWorkspaces: (workspaces, range, limit) => busiestWorkspaces(reader, workspaces, range, limit),
    listRefusals: page => listRefusals(reader, page, clock.wallMs()),
    async asOfMs() {
      const newest = reader.selectFrom('usage_gateways').select(({ fn }) => fn.max('seen_at_ms').as('at_ms'))
      // Over no rows SQL returns one row of nulls, which the query's type does not say.
      const row: { at_ms: number | null } | undefined = await newest.executeTakeFirst()
      return row?.at_ms ?? null
    },
  }
}

function tableOf({ step }: UsageRange): 'usage_hours' | 'usage_days' {
  return step === 'hour' ? 'usage_hours' : 'usage_days'
}

function within(range: UsageRange) {
  // Literals, so that PostgreSQL leaves out the partitions of other times while it plans.
  return sql<boolean>`bucket >= ${sql.lit(range.from)} and bucket < ${sql.lit(range.until)}`
}

function rowsOf(database: Kysely<Tables>, workspaceId: string, keyId: string, range: UsageRange) {
  return database
    .selectFrom(tableOf(range))
    .select(['bucket', 'route', 'code', 'count'])
    .where('workspace_id', '=', workspaceId)
    .where('key_id', '=', keyId)
    .where(within(range))
    .execute()
}

const SUMS = sql`cast(sum(count) as bigint) as requests,
  cast(sum(case when code = 'ok' then count else 0 end) as bigint) as served`

async function busiestKeys(
  database: Kysely<Tables>,
  workspaceId: string,
  range: UsageRange,
  limit: number,
): Promise<RequestsOf[]> {
  const { rows } = await sql<RequestsOf>`
    select key_id as name, ${SUMS} from ${sql.table(tableOf(range))}
    where workspace_id = ${workspaceId} and ${within(range)} and key_id in (
      select key_id from key_use where workspace_id = ${workspaceId}
      order by last_used_at_ms desc, key_id desc limit ${RANKED_KEYS})
    group by key_id order by requests desc, key_id limit ${limit}`.execute(database)
  return rows
}

async function busiestWorkspaces(
  database: Kysely<Tables>,
  workspaces: readonly string[] | null,
  range: UsageRange,
  limit: number,
): Promise<RequestsOf[]> {
  if (workspaces?.length === 0) return []
  const visible = workspaces === null ? sql`true` : sql`workspace_id in (${sql.join(workspaces)})`
  // The literal: the index has the rows with this key id alone.
  const { rows } = await sql<RequestsOf>`
    select workspace_id as name, ${SUMS} from ${sql.table(tableOf(range))}
    where key_id = '' and ${within(range)} and ${visible}
    group by workspace_id order by requests desc, workspace_id limit ${limit}`.execute(database)
  return rows
}
