import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Clock } from '../../domain/clock.ts'
import { INSTANT_EXPECTED, parseInstant } from '../../domain/form/instant.ts'
import { REVOCATION_TIMING } from '../../domain/revocation-timing.ts'
import type { Database, Dialect } from '../platform/database/database.ts'
import { FIVE_MINUTES, type Tables, type UsageRow } from '../platform/database/tables.ts'
import { ApiError } from '../platform/http/api-error.ts'
import type { LimitReader, NearLimitsReader } from './read-limits.ts'
import { type RefusalQuery, type RefusalSelection, readRefusals, searchRefusals } from './read-refusals.ts'
import { type CountTable, oldestBucket } from './reports/rows.ts'

/** Which parts of the reports are stored: the settings `usage.enabled` and `refusals.enabled`. */
export interface StoredUsage {
  readonly counts: boolean
  readonly refusals: boolean
}

type UsageDatabase = Pick<Database, 'reader' | 'dialect'>

/** What is stored, and reading it. */
export interface Usage {
  readonly stores: StoredUsage
  readonly queries: UsageQueries
  readonly limits: LimitReader
  readonly nearLimits: NearLimitsReader
}

/** What pages and the admin API ask about counts and refusals. */
type UsageQueries = ReturnType<typeof createUsageQueries>

export function createUsageQueries(database: UsageDatabase, clock: Clock) {
  const { reader } = database
  return {
    readKey: (
      { workspaceId, id }: { readonly workspaceId: string; readonly id: string },
      range: UsageRange,
    ) => readCounts(reader, { workspaceId, keyId: id }, range),
    /** With what gateways could not count by key. */
    readWorkspace: (workspaceId: string, range: UsageRange) =>
      readCounts(reader, { workspaceId, keyId: OF_WORKSPACE }, range),
    /** The keys with the most requests, the busiest first, among the `RANKED_KEYS` that were used last. */
    busiestKeys: (workspaceId: string, range: UsageRange, limit: number) =>
      busiest(database, sumsByKey(workspaceId), range, limit),
    busiestWorkspaces: (range: UsageRange, limit: number) => busiest(database, sumsByWorkspace, range, limit),
    searchRefusals: (query: RefusalQuery) => searchRefusals(reader, query, clock.wallMs()),
    readRefusals: (selection: RefusalSelection) => readRefusals(reader, selection, clock.wallMs()),
    asOfMs: () => readAsOf(reader, clock.wallMs()),
  }
}

/**
 * Until when counts are complete: the oldest last report of the gateways that are running. Without one, the last report of any;
 * null if there is none of the last days.
 */
async function readAsOf(reader: Kysely<Tables>, nowMs: number): Promise<number | null> {
  const seen = reader.selectFrom('usage_gateways')
  const running = seen
    // A report names its gateway and process, as `createKeyService` of a gateway puts them together.
    .innerJoin('gateways', join =>
      join.on('usage_gateways.gateway', '=', sql`gateways.name || ':' || gateways.id`),
    )
    .where('gateways.seen_at_ms', '>=', nowMs - REVOCATION_TIMING.gatewayExpiryMs)
  // Over no rows SQL returns one row of nulls, which the query's type does not say.
  const oldest: { at_ms: number | null } | undefined = await running
    .select(({ fn }) => fn.min('usage_gateways.seen_at_ms').as('at_ms'))
    .executeTakeFirst()
  if (oldest?.at_ms != null) return oldest.at_ms
  const newest: { at_ms: number | null } | undefined = await seen
    .select(({ fn }) => fn.max('seen_at_ms').as('at_ms'))
    .executeTakeFirst()
  return newest?.at_ms ?? null
}

/** What the admin API counts by. */
type UsageStep = 'hour' | 'day'
/** What charts count by. */
export type ChartStep = UsageStep | '5 minutes'

const STEP_MS = { '5 minutes': 300_000, hour: 3_600_000, day: 86_400_000 } as const
/** Where the request does not say: a day of hours, or a month of days. */
const DEFAULT_POINTS = { hour: 24, day: 30 } as const

/** Whole steps since the epoch. */
export interface UsageRange<Step extends ChartStep = ChartStep> {
  readonly step: Step
  readonly from: number
  /** Exclusive. */
  readonly until: number
}

interface UsageRangeText {
  readonly from?: string | undefined
  readonly to?: string | undefined
  readonly step?: UsageStep | undefined
}

type ParsedRange =
  | { readonly ok: true; readonly range: UsageRange<UsageStep> }
  | { readonly ok: false; readonly field: 'from' | 'to'; readonly expected: string }

const KEPT = { hour: 'within the last 14 days, for step=hour', day: 'within the last 400 days' } as const

/** The hours or days that hold a span of time: never more than are kept, which is at most 401 points. */
export function parseUsageRange({ from, to, step = 'hour' }: UsageRangeText, nowMs: number): ParsedRange {
  const toMs = to === undefined ? nowMs : parseInstant(to)
  if (toMs === null) return { ok: false, field: 'to', expected: INSTANT_EXPECTED }
  // What is to come has no counts, and zeros would look like some.
  const until = Math.ceil(Math.min(toMs, nowMs) / STEP_MS[step])
  const fromMs = from === undefined ? (until - DEFAULT_POINTS[step]) * STEP_MS[step] : parseInstant(from)
  if (fromMs === null) return { ok: false, field: 'from', expected: INSTANT_EXPECTED }
  const first = Math.floor(fromMs / STEP_MS[step])
  if (first >= until) return { ok: false, field: 'from', expected: 'in the past, and before to' }
  const oldest = oldestBucket(chooseTable({ step }), nowMs)
  if (first < oldest) return { ok: false, field: 'from', expected: KEPT[step] }
  return { ok: true, range: { step, from: first, until } }
}

/** The last steps, the present one included. */
export function lastPoints<Step extends ChartStep>(
  step: Step,
  points: number,
  nowMs: number,
): UsageRange<Step> {
  const until = Math.floor(nowMs / STEP_MS[step]) + 1
  return { step, from: until - points, until }
}

export function bucketStartMs(step: ChartStep, bucket: number): number {
  return bucket * STEP_MS[step]
}

/** Five minutes, an hour or a day. */
export interface UsagePoint {
  readonly atMs: number
  readonly requests: number
  /** `ok`, and the codes of what was not served. */
  readonly byCode: Readonly<Record<string, number>>
  readonly byRoute: Readonly<Record<string, number>>
  /** Requests with the code `ok`. */
  readonly servedByRoute: Readonly<Record<string, number>>
}

/** A point for each step of the range, also where nothing was counted. */
export function usagePoints(
  { step, from, until }: UsageRange,
  rows: readonly Pick<UsageRow, 'bucket' | 'route' | 'code' | 'count'>[],
): UsagePoint[] {
  const byBucket = Map.groupBy(rows, row => row.bucket)
  return Array.from({ length: until - from }, (_, index) => {
    const own = byBucket.get(from + index) ?? []
    return {
      atMs: bucketStartMs(step, from + index),
      requests: own.reduce((sum, { count }) => sum + count, 0),
      byCode: sumBy(own, ({ code }) => code),
      byRoute: sumBy(own, ({ route }) => route),
      servedByRoute: sumBy(
        own.filter(({ code }) => code === 'ok'),
        ({ route }) => route,
      ),
    }
  })
}

function sumBy<Row extends { readonly count: number }>(
  rows: readonly Row[],
  groupName: (row: Row) => string,
): Record<string, number> {
  const sums = new Map<string, number>()
  for (const row of rows) sums.set(groupName(row), (sums.get(groupName(row)) ?? 0) + row.count)
  return Object.fromEntries([...sums].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** The key id of the counts of a whole workspace. */
const OF_WORKSPACE = ''
/** A bound on what a page reads: about 10 ms. */
export const RANKED_KEYS = 500

/** Requests of a key or workspace. */
export interface RequestTotal {
  /** Its id. */
  readonly name: string
  readonly requests: number
  /** Those with the code `ok`. */
  readonly served: number
}

function chooseTable({ step }: Pick<UsageRange, 'step'>): CountTable {
  return step === 'day' ? 'usage_days' : 'usage_hours'
}

function within(range: UsageRange) {
  // Literals, so that PostgreSQL leaves out the partitions of other times while it plans.
  return sql<boolean>`bucket >= ${sql.lit(range.from)} and bucket < ${sql.lit(range.until)}`
}

/** Requests of a key or workspace. */
export interface UsageCounts {
  readonly points: readonly UsagePoint[]
  /** Requests of the hours of these five minutes that were reported late, so that their minute is unknown. */
  readonly late: number
}

interface Counted {
  readonly workspaceId: string
  /** Empty for the whole workspace. */
  readonly keyId: string
}

async function readCounts(reader: Kysely<Tables>, of: Counted, range: UsageRange): Promise<UsageCounts> {
  if (range.step === '5 minutes') return readFiveMinutes(reader, of, range)
  const rows = await selectCounts(reader, chooseTable(range), of, range).execute()
  return { points: usagePoints(range, rows), late: 0 }
}

async function readFiveMinutes(reader: Kysely<Tables>, of: Counted, range: UsageRange): Promise<UsageCounts> {
  const perHour = FIVE_MINUTES.length
  const hours = {
    step: 'hour',
    from: Math.floor(range.from / perHour),
    until: Math.ceil(range.until / perHour),
  } as const
  const rows = await selectCounts(reader, 'usage_hours', of, hours).select(FIVE_MINUTES).execute()
  const parts = rows.flatMap(row =>
    FIVE_MINUTES.map((column, index) => {
      const { route, code } = row
      return { bucket: row.bucket * perHour + index, route, code, count: row[column] ?? 0 }
    }),
  )
  const total = (counts: readonly { readonly count: number }[]) =>
    counts.reduce((sum, { count }) => sum + count, 0)
  return {
    points: usagePoints(
      range,
      parts.filter(({ count }) => count > 0),
    ),
    late: total(rows) - total(parts),
  }
}

function selectCounts<Table extends CountTable>(
  reader: Kysely<Tables>,
  table: Table,
  { workspaceId, keyId }: Counted,
  range: UsageRange,
) {
  return reader
    .selectFrom<CountTable>(table)
    .select(['bucket', 'route', 'code', 'count'])
    .where('workspace_id', '=', workspaceId)
    .where('key_id', '=', keyId)
    .where(within(range))
}

const SUMS = sql`cast(sum(count) as bigint) as requests,
  cast(sum(case when code = 'ok' then count else 0 end) as bigint) as served`

/** Hours or days of one statement of SQLite, which blocks the event loop meanwhile. */
const BUCKETS_AT_ONCE = 4

type SumsOf = (part: UsageRange) => RawBuilder<RequestTotal>

function sumsByKey(workspaceId: string): SumsOf {
  return part => sql`
    select key_id as name, ${SUMS} from ${sql.table(chooseTable(part))}
    where workspace_id = ${workspaceId} and ${within(part)} and key_id in (
      select key_id from key_use where workspace_id = ${workspaceId}
      order by last_used_at_ms desc, key_id desc limit ${RANKED_KEYS})
    group by key_id`
}

// The literal: the index has the rows with this key id alone.
const sumsByWorkspace: SumsOf = part => sql`
  select workspace_id as name, ${SUMS} from ${sql.table(chooseTable(part))}
  where key_id = '' and ${within(part)} group by workspace_id`

/** Those with the most requests, the busiest first. */
async function busiest(
  { reader, dialect }: UsageDatabase,
  sumsOf: SumsOf,
  range: UsageRange,
  limit: number,
): Promise<RequestTotal[]> {
  const totals = new Map<string, RequestTotal>()
  for (const part of splitRange(range, dialect)) {
    for (const { name, requests, served } of (await sumsOf(part).execute(reader)).rows) {
      const total = totals.get(name) ?? { requests: 0, served: 0 }
      totals.set(name, { name, requests: requests + total.requests, served: served + total.served })
    }
  }
  // Names are ASCII: their order is that of the database.
  const inOrder = [...totals.values()].sort((a, b) => b.requests - a.requests || (a.name < b.name ? -1 : 1))
  return inOrder.slice(0, limit)
}

function splitRange(range: UsageRange, dialect: Dialect): UsageRange[] {
  if (dialect === 'postgres') return [range]
  const parts: UsageRange[] = []
  for (let { from } = range; from < range.until; from += BUCKETS_AT_ONCE) {
    parts.push({ ...range, from, until: Math.min(from + BUCKETS_AT_ONCE, range.until) })
  }
  return parts
}

/** @throws ApiError if the settings of the console keep no counts */
export function requireCounts({ stores }: Pick<Usage, 'stores'>): void {
  if (!stores.counts) throw notStored('Counts and refusals', 'usage.enabled')
}

/** @throws ApiError if the settings of the console keep no refusals */
export function requireRefusals(usage: Pick<Usage, 'stores'>): void {
  requireCounts(usage)
  if (!usage.stores.refusals) throw notStored('Refusals', 'refusals.enabled')
}

function notStored(what: string, setting: string): ApiError {
  return new ApiError('usage_disabled', `${what} are not kept: the setting ${setting} is false`)
}
