import { type Kysely, type RawBuilder, type SqlBool, sql } from 'kysely'
import type { KeyRecord } from '../../domain/key/key-record.ts'
import type { ConsoleContext } from '../platform/capability.ts'
import { isLive, readKeyRow } from '../platform/database/key-row.ts'
import { inBatches } from '../platform/database/query-parts.ts'
import type { KeyRow, Tables } from '../platform/database/tables.ts'
import { keepUp } from '../platform/jobs/timers.ts'
import type { Deliveries } from './dispatcher.ts'
import { createExpiryEvent, WARNING_DAYS } from './events.ts'
import type { ReceiverKind } from './rows.ts'

const POLL_INTERVAL_MS = 60_000
const DAY_MS = 86_400_000
/** Of one span: a workspace with thousands of them gets its events over some minutes. */
const KEYS_AT_ONCE = 500
/** Keys of one statement: `node:sqlite` blocks the event loop meanwhile. */
const EXAMINED_AT_ONCE = 1000

interface ExpiryWatchParts extends Pick<ConsoleContext, 'clock' | 'timers' | 'logger'> {
  readonly reader: Kysely<Tables>
  readonly deliveries: Pick<Deliveries, 'insert'>
  readonly receivers: readonly ReceiverKind[]
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
 * keys of those that have one. Most have their event: a statement examines a bounded number.
 */
async function findExpiringKeys(
  database: Kysely<Tables>,
  kind: ReceiverKind,
  span: ExpirySpan,
): Promise<KeyRecord[]> {
  const found: KeyRecord[] = []
  const readAfter = (last: Expiry | null) => readExpiries(database, span, last)
  for await (const examined of inBatches(EXAMINED_AT_ONCE, readAfter)) {
    const ids = examined.map(({ id }) => id)
    const due = database.selectFrom('keys').selectAll().where('id', 'in', ids).where(isDue(kind, span))
    const rows = await due
      .orderBy('expires_at_ms')
      .orderBy('id')
      .limit(KEYS_AT_ONCE - found.length)
      .execute()
    found.push(...rows.map(row => readKeyRow(row).record))
    if (found.length === KEYS_AT_ONCE) break
  }
  return found
}

type Expiry = Pick<KeyRow, 'expires_at_ms' | 'id'>

/** The next keys of a span in the order of expiry. */
function readExpiries(
  database: Kysely<Tables>,
  { afterMs, untilMs }: ExpirySpan,
  last: Expiry | null,
): Promise<Expiry[]> {
  const { expires_at_ms, id } = last ?? { expires_at_ms: afterMs + 1, id: '' }
  return database
    .selectFrom('keys')
    .select(['expires_at_ms', 'id'])
    .where(sql<boolean>`(expires_at_ms, id) > (${expires_at_ms}, ${id})`)
    .where('expires_at_ms', '<=', untilMs)
    .orderBy('expires_at_ms')
    .orderBy('id')
    .limit(EXAMINED_AT_ONCE)
    .execute()
}

function isDue(kind: ReceiverKind, { days, afterMs }: ExpirySpan): RawBuilder<SqlBool> {
  const receiver = kind === 'operator' ? sql`''` : sql`keys.workspace_id`
  const webhooks = sql`and workspace_id in (select workspace_id from workspace_webhooks)`
  // A key with a shorter lifetime than the warning needs no warning.
  const needsIt = sql`and replaced_by is null and expires_at_ms - created_at_ms > ${days * DAY_MS}`
  // The key of `createExpiryEvent`. `node:sqlite` binds a number as a real, so that 14 as a text would be 14.0.
  return sql<SqlBool>`${isLive(afterMs)} ${kind === 'workspace' ? webhooks : sql``} ${days > 0 ? needsIt : sql``}
    and not exists (select 1 from webhook_deliveries where receiver = ${receiver} and deduplication_key =
      keys.id || ':' || cast(keys.expires_at_ms as text) || ${`:${days}`})`
}
