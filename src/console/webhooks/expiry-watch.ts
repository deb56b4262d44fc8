import { type Kysely, sql } from 'kysely'
import type { Clock } from '../../domain/clock.ts'
import type { KeyRecord } from '../../domain/key/key-record.ts'
import type { ControlLogger } from '../../observability/control-logger.ts'
import { isLive, readKeyRow } from '../platform/database/key-row.ts'
import type { Tables } from '../platform/database/tables.ts'
import { keepUp, type Timers } from '../platform/jobs/timers.ts'
import type { Deliveries } from './dispatcher.ts'
import { createExpiryEvent, WARNING_DAYS } from './events.ts'
import type { ReceiverKind } from './rows.ts'

const POLL_INTERVAL_MS = 60_000
const DAY_MS = 86_400_000
const KEYS_AT_ONCE = 500

interface ExpiryWatchParts {
  readonly reader: Kysely<Tables>
  readonly deliveries: Pick<Deliveries, 'insert'>
  readonly receivers: readonly ReceiverKind[]
  readonly clock: Clock
  readonly timers: Timers
  readonly logger: ControlLogger
  readonly newEventId: (nowMs: number) => string
}

/** @returns stops the watch */
export function startExpiryWatch(parts: ExpiryWatchParts): () => void {
  return keepUp(parts, {
    everyMs: POLL_INTERVAL_MS,
    work: () => recordExpiries(parts),
    isDueNow: true,
    failure: 'expiring keys not listed, retrying',
  })
}

/** Inserts events for keys that expire; several consoles insert each once. */
export async function recordExpiries(
  parts: Pick<ExpiryWatchParts, 'reader' | 'deliveries' | 'receivers' | 'clock' | 'newEventId'>,
): Promise<void> {
  const { reader, deliveries, receivers, clock, newEventId } = parts
  const nowMs = clock.wallMs()
  for (const receiver of receivers) {
    for (const span of expirySpans(nowMs)) {
      const keys = await findExpiringKeys(reader, receiver, span)
      const events = keys.map(key => {
        const about = { id: newEventId(nowMs), days: span.days, nowMs }
        return createExpiryEvent(key, about, receiver)
      })
      await deliveries.insert(events)
    }
  }
}

interface ExpirySpan {
  /** The event's number of days. */
  readonly days: number
  readonly afterMs: number
  readonly untilMs: number
}

/**
 * Spans of expiry that call for an event. They do not overlap: after an outage a console warns once, with the nearest. Keys that
 * expired more than a day ago get no event.
 * @param nowMs milliseconds since the epoch
 */
export function expirySpans(nowMs: number): ExpirySpan[] {
  const borders = [0, ...WARNING_DAYS]
  const warnings = WARNING_DAYS.map((days, index) => ({
    days,
    afterMs: nowMs + (borders[index] ?? 0) * DAY_MS,
    untilMs: nowMs + days * DAY_MS,
  }))
  return [{ days: 0, afterMs: nowMs - DAY_MS, untilMs: nowMs }, ...warnings]
}

/**
 * Working keys that were not replaced and expire in this span and have no event for it yet; for workspaces' webhooks, only
 * keys of those that have one.
 */
async function findExpiringKeys(
  database: Kysely<Tables>,
  kind: ReceiverKind,
  { days, afterMs, untilMs }: ExpirySpan,
): Promise<KeyRecord[]> {
  const receiver = kind === 'operator' ? sql`''` : sql`keys.workspace_id`
  let query = database
    .selectFrom('keys')
    .selectAll()
    .where(isLive(afterMs))
    .where('expires_at_ms', '<=', untilMs)
    .where(
      // The key of `createExpiryEvent`.
      sql<boolean>`not exists (select 1 from webhook_deliveries where receiver = ${receiver} and deduplication_key =
        keys.id || ':' || cast(keys.expires_at_ms as text) || ':' || cast(${days} as text))`,
    )
  if (kind === 'workspace') {
    query = query.where(
      'workspace_id',
      'in',
      database.selectFrom('workspace_webhooks').select('workspace_id'),
    )
  }
  if (days > 0) {
    // A key with a shorter lifetime than the warning needs no warning.
    const shortest = days * DAY_MS
    query = query
      .where('replaced_by', 'is', null)
      .where(sql<boolean>`expires_at_ms - created_at_ms > ${shortest}`)
  }
  const rows = await query.orderBy('expires_at_ms').limit(KEYS_AT_ONCE).execute()
  return rows.map(row => readKeyRow(row).record)
}
