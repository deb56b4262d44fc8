import { createHash } from 'node:crypto'
import { sql, type Transaction } from 'kysely'
import { type LimitUse, NEAR_LIMIT_PERCENT } from '../../../domain/rate-limit.ts'
import type { Dialect } from '../../platform/database/database.ts'
import { type Column, listAsRows, rowsFrom } from '../../platform/database/query-parts.ts'
import type { LimitUseRow, Tables } from '../../platform/database/tables.ts'

const HOUR_MS = 3_600_000
/** The shortest month. */
const MONTH_MS = 28 * 24 * HOUR_MS
/** No event is sent of a window that ended earlier: its gateway could not report for long. */
const LATEST_MS = HOUR_MS
/** Percentages of a limit at which webhooks get an event. */
const SHARES = [NEAR_LIMIT_PERCENT, 100] as const

/** Windows of a report, and the region that their requests were counted in. */
interface ReportedLimits {
  readonly region: string
  readonly limits: readonly LimitUse[]
}

/** A window that has reached a share of its limit for the first time. */
export interface ReachedLimit {
  readonly row: LimitUseRow
  readonly percent: (typeof SHARES)[number]
}

/**
 * Stores what gateways report of nearly used up windows. Each row is locked before it is compared, so that of several
 * gateways and consoles one finds that a share is reached.
 * @returns what receivers get an event of, once for each window and share
 */
export async function storeLimitUses(
  tx: Transaction<Tables>,
  reports: readonly ReportedLimits[],
  nowMs: number,
  dialect: Dialect,
): Promise<readonly ReachedLimit[]> {
  const reported = latestWindows(reports, nowMs)
  if (reported.length === 0) return []
  const unknown = reported.map(row => ({ ...row, used: 0, ends_at_ms: 0 }))
  await sql`${insertion(unknown, dialect)} on conflict (id) do nothing`.execute(tx)
  const lock = sql.raw(dialect === 'postgres' ? 'for update' : '')
  const ids = listAsRows(
    reported.map(({ id }) => id),
    dialect,
  )
  const { rows } = await sql<LimitUseRow>`
    select * from limit_uses where id in (select listed.value from ${ids}) order by id ${lock}`.execute(tx)
  const known = new Map(rows.map(row => [row.id, row]))
  const reached: ReachedLimit[] = []
  const changed = reported.flatMap(row => {
    const before = known.get(row.id)
    const next = before === undefined ? null : continueWindow(before, row)
    if (next === null) return []
    const { row: stored, sentBefore } = next
    for (const percent of SHARES) {
      if (sentBefore < percent && percent <= stored.sent_percent) reached.push({ row: stored, percent })
    }
    return [stored]
  })
  const changes = sql.join(
    CHANGED_COLUMNS.map(name => sql`${sql.ref(name)} = ${sql.ref(`excluded.${name}`)}`),
  )
  await sql`${insertion(changed, dialect)} on conflict (id) do update set ${changes}`.execute(tx)
  return reached
}

/** One row for each window, in one order, so that two consoles cannot deadlock. */
function latestWindows(reports: readonly ReportedLimits[], nowMs: number): LimitUseRow[] {
  const latest = new Map<string, LimitUseRow>()
  for (const { region, limits } of reports) {
    for (const use of limits) {
      if (use.endsAt < nowMs - LATEST_MS) continue
      const row = toRow(use, region, nowMs)
      const other = latest.get(row.id)
      const next = other === undefined ? row : (continueWindow(other, row)?.row ?? other)
      latest.set(row.id, next)
    }
  }
  return [...latest.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
}

function toRow(use: LimitUse, region: string, nowMs: number): LimitUseRow {
  const { workspaceId, keyId, plan, policy, windowSeconds, requests, used, endsAt } = use
  const identity = [workspaceId, keyId, policy, windowSeconds, requests, region]
  return {
    id: createHash('sha256').update(JSON.stringify(identity)).digest('base64url').slice(0, 22),
    workspace_id: workspaceId,
    key_id: keyId ?? '',
    plan: plan ?? '',
    policy,
    window_seconds: windowSeconds ?? 0,
    requests,
    region,
    used,
    percent: Math.floor((used * 100) / requests),
    ends_at_ms: endsAt,
    reported_at_ms: nowMs,
    sent_percent: 0,
    sent_at_ms: 0,
  }
}

/**
 * What a report changes. The ends of one window differ by what clocks differ, those of two windows by its length at least.
 * Windows of less than an hour have an event once an hour at most: a customer at a limit of a minute causes one event.
 * @returns null if the report is of an earlier window
 */
function continueWindow(
  before: LimitUseRow,
  reported: LimitUseRow,
): { readonly row: LimitUseRow; readonly sentBefore: number } | null {
  const { window_seconds: seconds, requests } = reported
  const lengthMs = seconds === 0 ? MONTH_MS : seconds * 1000
  const laterMs = reported.ends_at_ms - before.ends_at_ms
  if (laterMs < -lengthMs / 2) return null
  const isNext = laterMs > lengthMs / 2
  const used = isNext ? reported.used : Math.max(before.used, reported.used)
  const percent = Math.floor((used * 100) / requests)
  const isRepeated = lengthMs < HOUR_MS && reported.reported_at_ms < before.sent_at_ms + HOUR_MS
  const sentBefore = isNext && !isRepeated ? 0 : before.sent_percent
  return {
    row: {
      ...reported,
      used,
      percent,
      ends_at_ms: isNext ? reported.ends_at_ms : before.ends_at_ms,
      sent_percent: Math.max(sentBefore, ...SHARES.filter(share => share <= percent)),
      sent_at_ms: sentBefore === 0 ? reported.reported_at_ms : before.sent_at_ms,
    },
    sentBefore,
  }
}

const TEXTS = ['id', 'workspace_id', 'key_id', 'plan', 'policy', 'region'] as const
const NUMBERS = ['window_seconds', 'requests', 'ends_at_ms'] as const
/** What a report can change. */
const CHANGED_COLUMNS = [
  'plan',
  'used',
  'percent',
  'ends_at_ms',
  'reported_at_ms',
  'sent_percent',
  'sent_at_ms',
] as const
const COLUMNS = [...new Set([...TEXTS, ...NUMBERS, ...CHANGED_COLUMNS])]

function insertion(rows: readonly LimitUseRow[], dialect: Dialect) {
  const columns = COLUMNS.map((name): Column => {
    const type = TEXTS.some(text => text === name) ? 'text' : 'bigint'
    return { values: rows.map(row => row[name]), type }
  })
  const names = sql.join(COLUMNS.map(name => sql.ref(name)))
  const values = sql.raw(COLUMNS.map((_, index) => `c${index}`).join(', '))
  return sql`insert into limit_uses (${names}) select ${values} from ${rowsFrom(columns, dialect)} where true`
}
