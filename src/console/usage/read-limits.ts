import { type RawBuilder, type SqlBool, sql } from 'kysely'
import { type OnReload, reloadable } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema/schema.ts'
import type { Clock } from '../../domain/clock.ts'
import { toInstant } from '../../domain/form/instant.ts'
import type { KeyRecord } from '../../domain/key/key-record.ts'
import {
  counterName,
  currentWindow,
  type PolicySettings,
  policiesOfPlan,
  type RatePolicy,
} from '../../domain/rate-limit.ts'
import { DEFAULT_REGION } from '../../domain/region.ts'
import type { Announcer, CounterReadings, Regions } from '../announcing/index.ts'
import type { Database } from '../platform/database/database.ts'
import { isLive } from '../platform/database/key-row.ts'
import { firstRows, listAsRows, takePage } from '../platform/database/query-parts.ts'
import type { LimitUseRow } from '../platform/database/tables.ts'

/** What is left of the window of one policy. */
export interface LimitWindow {
  readonly policy: RatePolicy
  /** Requests; null: unknown. */
  readonly remaining: number | null
  /** Null if it begins with the next request, or if that is unknown. */
  readonly resetsAtMs: number | null
}

/** Each region counts by itself. */
export interface RegionWindows {
  /** Null if the settings name no regions. */
  readonly region: string | null
  readonly windows: readonly LimitWindow[]
  /** Why nothing is known of what is left; null if all of it is. */
  readonly unknown: Extract<CounterReadings, string> | null
}

export interface LimitsInUse {
  /** The plan whose policies hold; null: those of keys without a plan do. */
  readonly plan: string | null
  /** None if there is no policy. */
  readonly regions: readonly RegionWindows[]
}

/** @param counters in the order of the policies */
export function listWindows(
  policies: readonly RatePolicy[],
  counters: CounterReadings,
  nowMs: number,
): readonly LimitWindow[] {
  return policies.map((policy, index) => {
    const { leftMs } = currentWindow(policy, nowMs)
    const isKnown = typeof counters !== 'string'
    const counter = isKnown ? (counters[index] ?? null) : null
    if (counter !== null) {
      const resetsAtMs = nowMs + Math.min(counter.endsInMs, leftMs)
      return { policy, remaining: Math.max(0, policy.requests - counter.used), resetsAtMs }
    }
    const resetsAtMs = policy.window === 'month' ? nowMs + leftMs : null
    return { policy, remaining: isKnown ? policy.requests : null, resetsAtMs }
  })
}

interface NearLimitsParts {
  readonly config: Pick<Config, 'limits'>
  readonly onReload: OnReload<Pick<Config, 'limits'>>
  readonly clock: Pick<Clock, 'wallMs'>
}

interface LimitReaderParts extends NearLimitsParts {
  readonly regions: Pick<Regions, 'areNamed'> & {
    readonly list: readonly { readonly name: string; readonly announcer: Pick<Announcer, 'readCounters'> }[]
  }
}

/** Reads what is left of each window, from the counters that gateways share. Never rejects. */
export type LimitReader = ReturnType<typeof createLimitReader>

export function createLimitReader({ config, onReload, clock, regions }: LimitReaderParts) {
  const settings = reloadable(config, onReload, ({ limits }) => limits)
  const read = async (
    policies: readonly RatePolicy[],
    { workspaceId, id }: { readonly workspaceId: string; readonly id: string },
  ): Promise<readonly RegionWindows[]> => {
    if (policies.length === 0) return []
    const nowMs = clock.wallMs()
    const names = policies.map(policy =>
      counterName(policy, currentWindow(policy, nowMs), { workspaceId, id }),
    )
    return Promise.all(
      regions.list.map(async ({ name, announcer }) => {
        const counters = await announcer.readCounters(workspaceId, names)
        return {
          region: regions.areNamed ? name : null,
          windows: listWindows(policies, counters, nowMs),
          unknown: typeof counters === 'string' ? counters : null,
        }
      }),
    )
  }
  return {
    async ofKey(key: Pick<KeyRecord, 'workspaceId' | 'id' | 'plan'>): Promise<LimitsInUse> {
      const { plan, policies } = policiesOfPlan(settings.value, key.plan)
      return { plan, regions: await read(policies, key) }
    },
    /** Of the policies that count all keys of a workspace together. */
    async ofWorkspace(workspaceId: string, ownPlan: string | null): Promise<LimitsInUse> {
      const { plan, policies } = policiesOfPlan(settings.value, ownPlan)
      const shared = policies.filter(({ per }) => per === 'workspace')
      return { plan, regions: await read(shared, { workspaceId, id: '' }) }
    },
  }
}

/** A window of a limit that is used by at least 80 %. */
export interface NearLimit extends LimitUseRow {
  /** Of its key; null where all keys of the workspace are counted together. */
  readonly name: string | null
  readonly hint: string | null
}

/** Where a page goes on: the percentage and the id of the last one. */
export const NEAR_LIMIT_CURSOR = /^[0-9]{2,3}\.[A-Za-z0-9_-]{22}$/

interface NearLimitQuery {
  /** Null: all. */
  readonly workspaceIds: readonly string[] | null
  readonly limit: number
  /** A cursor; null for the first page. */
  readonly after: string | null
}

interface NearLimitPage {
  /** The fullest first. */
  readonly limits: readonly NearLimit[]
  /** The cursor of the next page. */
  readonly nextAfter: string | null
}

export type NearLimitsReader = ReturnType<typeof createNearLimitsReader>

export function createNearLimitsReader(
  { reader, dialect }: Database,
  { config, onReload, clock }: NearLimitsParts,
) {
  const settings = reloadable(config, onReload, ({ limits }) => limits)
  return {
    /** Whether the settings have any policy. */
    get areLimited(): boolean {
      return listRules(settings.value).length > 0
    },
    /** Those whose window goes on, under the limits and plans that hold now. */
    async list({ workspaceIds, limit, after }: NearLimitQuery): Promise<NearLimitPage> {
      if (workspaceIds?.length === 0) return { limits: [], nextAfter: null }
      const nowMs = clock.wallMs()
      const rules = listAsRows(listRules(settings.value), dialect)
      const first = firstRows(
        {
          table: 'limit_uses',
          value: 'percent',
          id: 'id',
          workspaceIds,
          descending: true,
          within: [
            sql<SqlBool>`ends_at_ms > ${nowMs}`,
            sql<SqlBool>`${RULE} in (select listed.value from ${rules})`,
            isOfPresentPlan(Object.keys(settings.value.plans), nowMs),
          ],
          after: after === null ? null : readCursor(after),
          count: limit + 1,
        },
        dialect,
      )
      const { rows } = await sql<NearLimit>`
        select limit_uses.*, keys.name, keys.hint from (${first}) as first
        join limit_uses on limit_uses.id = first.id left join keys on keys.id = limit_uses.key_id
        order by limit_uses.percent desc, limit_uses.id desc limit ${limit + 1}`.execute(reader)
      const page = takePage(rows, limit, ({ percent, id }) => `${percent}.${id}`)
      return { limits: page.rows, nextAfter: page.next }
    },
  }
}

function readCursor(cursor: string) {
  const [percent, id = ''] = cursor.split('.')
  return { value: Number(percent), id }
}

/** What a row must have in common with a policy of the settings: a limit that was raised is not nearly used up. */
const RULE = sql`plan || ' ' || policy || ' ' || cast(window_seconds as text) || ' ' || cast(requests as text) ||
  case when key_id = '' then ' workspace' else ' key' end`

function listRules({ policies, plans }: PolicySettings): string[] {
  const rules = [
    ['', policies] as const,
    ...Object.entries(plans).map(([plan, own]) => [plan, own.policies] as const),
  ]
  return rules.flatMap(([plan, own]) =>
    own.map(
      ({ name, windowSeconds = 0, requests, per }) => `${plan} ${name} ${windowSeconds} ${requests} ${per}`,
    ),
  )
}

/**
 * Whether the key that is limited works and still has the plan, or for a workspace any key of it. Of keys without a plan in a
 * workspace with one nothing is known here: no index has them.
 */
function isOfPresentPlan(plans: readonly string[], nowMs: number): RawBuilder<SqlBool> {
  const known = plans.length === 0 ? sql`null` : sql.join(plans)
  const works = isLive(nowMs)
  const own = sql`limit_uses.plan = case when present.plan in (${known}) then present.plan else '' end`
  return sql<SqlBool>`case when key_id <> '' then
      exists (select 1 from keys as present where id = limit_uses.key_id and ${works} and ${own})
    else limit_uses.plan = coalesce((select plan from workspace_plans where workspace_id = limit_uses.workspace_id
        and plan in (${known})), '')
      or limit_uses.plan <> '' and exists (select 1 from keys as present
        where workspace_id = limit_uses.workspace_id and present.plan = limit_uses.plan and ${works}) end`
}

/** In the admin API, and in webhook events. */
export function nearLimitJson(row: LimitUseRow) {
  return {
    workspaceId: row.workspace_id,
    keyId: row.key_id === '' ? null : row.key_id,
    policy: row.policy,
    plan: row.plan === '' ? null : row.plan,
    per: row.key_id === '' ? ('workspace' as const) : ('key' as const),
    region: row.region === DEFAULT_REGION ? null : row.region,
    limit: row.requests,
    used: row.used,
    remaining: row.requests - row.used,
    resetsAt: toInstant(row.ends_at_ms),
  }
}
