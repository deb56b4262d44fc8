import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Clock } from '../../domain/clock.ts'
import type { Database, Dialect } from '../platform/database/database.ts'
import { listOf } from '../platform/database/first-rows.ts'
import type { Tables } from '../platform/database/tables.ts'
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

type UsageDatabase = Pick<Database, 'reader' | 'dialect'>

export function createUsageQueries(database: UsageDatabase, clock: Clock): UsageQueries {
  const { reader } = database
  return {
    usageOfKey: async ({ workspaceId, id }, range) =>
      pointsOf(range, await rowsOf(reader, workspaceId, id, range)),
    usageOfWorkspace: async (workspaceId, range) =>
      pointsOf(range, await rowsOf(reader, workspaceId, OF_WORKSPACE, range)),
    busiestKeys: (workspaceId, range, limit) => busiestKeys(database, workspaceId, range, limit),
    busiestWorkspaces: (workspaces, range, limit) => busiestWorkspaces(database, workspaces, range, limit),
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

/** Hours or days of one statement of SQLite, which blocks the event loop meanwhile. */
const BUCKETS_AT_ONCE = 2

async function busiestKeys(
  { reader, dialect }: UsageDatabase,
  workspaceId: string,
  range: UsageRange,
  limit: number,
): Promise<RequestsOf[]> {
  const sums = (part: UsageRange) => sql<RequestsOf>`
    select key_id as name, ${SUMS} from ${sql.table(tableOf(part))}
    where workspace_id = ${workspaceId} and ${within(part)} and key_id in (
      select key_id from key_use where workspace_id = ${workspaceId}
      order by last_used_at_ms desc, key_id desc limit ${RANKED_KEYS})
    group by key_id`
  return busiest(await sumParts(reader, partsOf(range, dialect), sums), limit)
}

async function busiestWorkspaces(
  { reader, dialect }: UsageDatabase,
  workspaces: readonly string[] | null,
  range: UsageRange,
  limit: number,
): Promise<RequestsOf[]> {
  const visible =
    workspaces === null
      ? sql`true`
      : sql`workspace_id in (select listed.value from ${listOf(workspaces, dialect)})`
  // The literal: the index has the rows with this key id alone.
  const sums = (part: UsageRange) => sql<RequestsOf>`
    select workspace_id as name, ${SUMS} from ${sql.table(tableOf(part))}
    where key_id = '' and ${within(part)} and ${visible}
    group by workspace_id`
  return busiest(await sumParts(reader, partsOf(range, dialect), sums), limit)
}

function partsOf(range: UsageRange, dialect: Dialect): UsageRange[] {
  if (dialect === 'postgres') return [range]
  const parts: UsageRange[] = []
  for (let { from } = range; from < range.until; from += BUCKETS_AT_ONCE) {
    parts.push({ ...range, from, until: Math.min(from + BUCKETS_AT_ONCE, range.until) })
  }
  return parts
}

async function sumParts(
  database: Kysely<Tables>,
  parts: readonly UsageRange[],
  sums: (part: UsageRange) => RawBuilder<RequestsOf>,
): Promise<RequestsOf[]> {
  const totals = new Map<string, RequestsOf>()
  for (const part of parts) {
    for (const { name, requests, served } of (await sums(part).execute(database)).rows) {
      const total = totals.get(name)
      totals.set(name, {
        name,
        requests: requests + (total?.requests ?? 0),
        served: served + (total?.served ?? 0),
      })
    }
  }
  return [...totals.values()]
}

function busiest(requests: readonly RequestsOf[], limit: number): RequestsOf[] {
  // Names are ASCII: their order is that of the database.
  return requests.toSorted((a, b) => b.requests - a.requests || (a.name < b.name ? -1 : 1)).slice(0, limit)
}
