import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import type { Dialect } from '../platform/database/database.ts'
import { isChosen, type PageOptions, takePage } from '../platform/database/query-parts.ts'
import type { DeliveryRow, Tables } from '../platform/database/tables.ts'

const KEPT_MS = 30 * 86_400_000
const PURGED_AT_ONCE = 1_000
/** A receiver that fails rests for no longer. */
export const MAX_REST_MS = 60_000
/** No failed attempt is repeated later than this: see `retryDelayMs`. */
export const MAX_RETRY_DELAY_MS = 11 * 3_600_000
/** Events of one workspace that wait for an attempt. */
export const MAX_WAITING = 10_000
const TOO_MANY_WAITING = `Not sent: ${MAX_WAITING} events were waiting`
/** Of a receiver that was not tried since it was opened. */
const NEVER_MS = 0
/** The receiver of deliveries to the operator's webhook; that of others is the id of their workspace. */
const OPERATOR = ''

/** Whose webhook receives an event: the operator's, or that of the key's workspace. */
export type ReceiverKind = 'operator' | 'workspace'

/** Something that happened to a key or a limit, or a test, to be sent to a webhook. */
export interface WebhookEvent {
  readonly receiver: ReceiverKind
  readonly id: string
  readonly workspaceId: string
  /** Empty for a test, and for a limit of a whole workspace. */
  readonly keyId: string
  readonly type: string
  /** Equal for the same change, so that a receiver gets it once even if several consoles find it. */
  readonly deduplicationKey: string
  readonly atMs: number
  /** The signed JSON body. It never holds a secret or a digest. */
  readonly body: string
}

/** A line of the delivery log. */
export interface Delivery {
  readonly id: string
  readonly type: string
  /** Empty for a test, and for a limit of a whole workspace. */
  readonly keyId: string
  readonly atMs: number
  readonly attempts: number
  readonly deliveredAtMs: number | null
  /** Null once delivered or given up. */
  readonly nextAttemptAtMs: number | null
  readonly lastStatus: number | null
  readonly lastError: string | null
}

/** An event that is due now, with the number of attempts so far. */
export type DueDelivery = Pick<DeliveryRow, 'receiver' | 'id' | 'body' | 'attempts'>

/** A receiver with events that are due now, claimed by this console. */
export interface ClaimedReceiver {
  /** A workspace; empty for the operator. */
  readonly receiver: string
  /** Attempts in a row that failed. */
  readonly failures: number
  readonly due: readonly DueDelivery[]
}

export interface Claim {
  readonly kind: ReceiverKind
  /** How many to claim at most. */
  readonly receivers: number
  readonly eventsOfEach: number
  readonly nowMs: number
  readonly claimedUntilMs: number
  readonly dialect: Dialect
}

export type AttemptOutcome =
  | { readonly kind: 'delivered'; readonly status: number }
  /** @property dueAtMs when to try again; null when it is given up */
  | {
      readonly kind: 'failed'
      readonly status: number | null
      readonly reason: string
      readonly dueAtMs: number | null
    }

/** Deliveries of a workspace's events to one kind of receiver. */
interface LogScope {
  readonly kind: ReceiverKind
  readonly workspaceId: string
}

function receiverName({ kind, workspaceId }: LogScope): string {
  return kind === 'operator' ? OPERATOR : workspaceId
}

/** Those to workspaces without a webhook are left out. */
export async function insertEvents(
  tx: Transaction<Tables>,
  events: readonly WebhookEvent[],
): Promise<number> {
  const rows = events.map(toDeliveryRow)
  const toOperator = rows.filter(({ receiver }) => receiver === OPERATOR)
  const toWorkspaces = await boundedRows(
    tx,
    rows.filter(({ receiver }) => receiver !== OPERATOR),
  )
  let added = 0n
  for (const row of [...toOperator, ...toWorkspaces]) {
    const { numInsertedOrUpdatedRows = 0n } = await tx
      .insertInto('webhook_deliveries')
      .values(row)
      .onConflict(conflict => conflict.columns(['receiver', 'deduplication_key']).doNothing())
      .executeTakeFirst()
    added += numInsertedOrUpdatedRows
  }
  return Number(added)
}

/** Beyond the bound an event is stored as given up, and can be sent again. */
async function boundedRows(tx: Transaction<Tables>, rows: readonly DeliveryRow[]): Promise<DeliveryRow[]> {
  const kept: DeliveryRow[] = []
  for (const [workspaceId, own] of Map.groupBy(rows, ({ receiver }) => receiver)) {
    if (!(await isOpen(tx, workspaceId))) continue
    const room = MAX_WAITING - (await countWaiting(tx, workspaceId))
    kept.push(
      ...own.map((row, index) =>
        index < room ? row : { ...row, due_at_ms: null, last_error: TOO_MANY_WAITING },
      ),
    )
  }
  return kept
}

async function isOpen(tx: Transaction<Tables>, receiver: string): Promise<boolean> {
  const query = tx.selectFrom('webhook_receivers').select('receiver').where('receiver', '=', receiver)
  return (await query.executeTakeFirst()) !== undefined
}

async function countWaiting(tx: Transaction<Tables>, receiver: string): Promise<number> {
  const { rows } = await sql<{ waiting: number | string }>`
    select count(*) as waiting from (select 1 as one from webhook_deliveries
      where receiver = ${receiver} and due_at_ms is not null limit ${MAX_WAITING}) as counted`.execute(tx)
  return Number(rows[0]?.waiting ?? 0)
}

/**
 * The receivers of this kind that have waited longest for an attempt, each with its oldest events: none waits for another's
 * backlog. Other consoles leave both alone until the claim ends. A claim, a rest or an event further ahead than any lasts was made by a
 * clock that was wrong, and does not wait.
 */
export async function claimDue(tx: Transaction<Tables>, claim: Claim): Promise<ClaimedReceiver[]> {
  const { kind, nowMs, claimedUntilMs, dialect } = claim
  const possibleMs = nowMs + 2 * Math.max(claimedUntilMs - nowMs, MAX_REST_MS)
  await correctTimes(tx, claim, possibleMs)
  const longestWaiting = sql`
    select receiver from webhook_receivers
    where exists (select 1 from webhook_deliveries where due_at_ms <= ${nowMs})
      and ${isOfKind(kind)} and (claimed_until_ms <= ${nowMs} or claimed_until_ms > ${possibleMs})
      and (paused_until_ms <= ${nowMs} or paused_until_ms > ${possibleMs}) and exists (
      select 1 from webhook_deliveries
      where webhook_deliveries.receiver = webhook_receivers.receiver and due_at_ms <= ${nowMs})
    order by attempted_at_ms, receiver limit ${claim.receivers}`
  const { rows } = await sql<{ receiver: string; failures: number }>`
    update webhook_receivers set claimed_until_ms = ${claimedUntilMs}, attempted_at_ms = ${nowMs}
    where ${isChosen(sql`receiver`, longestWaiting, dialect)}
    returning receiver, failures`.execute(tx)
  const claimed: ClaimedReceiver[] = []
  for (const { receiver, failures } of rows) {
    // The claim on the receiver keeps other consoles from these.
    const oldest = sql`
      select id from webhook_deliveries
      where receiver = ${receiver} and due_at_ms <= ${nowMs} order by due_at_ms, id limit ${claim.eventsOfEach}`
    const due = await sql<DueDelivery>`
      update webhook_deliveries set due_at_ms = ${claimedUntilMs}
      where receiver = ${receiver} and ${isChosen(sql`id`, oldest, dialect)}
      returning receiver, id, body, attempts`.execute(tx)
    claimed.push({ receiver, failures, due: due.rows })
  }
  return claimed
}

/** Makes events due that only a wrong clock could have put so far ahead. Both statements read the end of an index, where there is hardly ever one. */
async function correctTimes(
  tx: Transaction<Tables>,
  { kind, nowMs }: Pick<Claim, 'kind' | 'nowMs'>,
  possibleMs: number,
): Promise<void> {
  await sql`
    update webhook_deliveries set due_at_ms = ${nowMs}
    where at_ms > ${possibleMs} and due_at_ms > ${possibleMs} and attempts = 0`.execute(tx)
  // After a failed attempt the event's own time may be right.
  await sql`
    update webhook_deliveries set due_at_ms = ${nowMs}
    where ${isOfKind(kind)} and due_at_ms > ${possibleMs + MAX_RETRY_DELAY_MS}`.execute(tx)
}

function isOfKind(kind: ReceiverKind): RawBuilder<unknown> {
  return kind === 'operator' ? sql`receiver = ${OPERATOR}` : sql`receiver <> ${OPERATOR}`
}

export async function recordAttempt(
  tx: Transaction<Tables>,
  { receiver, id, attempts }: DueDelivery,
  outcome: AttemptOutcome,
  nowMs: number,
): Promise<void> {
  const isDelivered = outcome.kind === 'delivered'
  let update = tx
    .updateTable('webhook_deliveries')
    .set({
      attempts: attempts + 1,
      due_at_ms: isDelivered ? null : outcome.dueAtMs,
      delivered_at_ms: isDelivered ? nowMs : null,
      last_status: outcome.status,
      last_error: isDelivered ? null : outcome.reason,
    })
    .where('receiver', '=', receiver)
    .where('id', '=', id)
  // Given up meanwhile: its receiver was closed.
  if (!isDelivered) update = update.where('due_at_ms', 'is not', null)
  await update.execute()
}

/** Ends a claim. A receiver that was opened anew meanwhile does not rest: what failed went to its former address. */
export async function releaseReceiver(
  tx: Transaction<Tables>,
  receiver: string,
  { failures, pausedUntilMs }: { readonly failures: number; readonly pausedUntilMs: number },
  nowMs: number,
): Promise<void> {
  const { numUpdatedRows } = await tx
    .updateTable('webhook_receivers')
    .set({ claimed_until_ms: 0, failures, paused_until_ms: pausedUntilMs })
    .where('receiver', '=', receiver)
    .where('attempted_at_ms', '<>', NEVER_MS)
    .executeTakeFirst()
  if (numUpdatedRows > 0n) return
  await tx
    .updateTable('webhook_receivers')
    .set({ claimed_until_ms: 0 })
    .where('receiver', '=', receiver)
    .execute()
  await makeWaitingDue(tx, receiver, nowMs)
}

/** Also what waits for another attempt. */
async function makeWaitingDue(tx: Transaction<Tables>, receiver: string, nowMs: number): Promise<void> {
  await tx
    .updateTable('webhook_deliveries')
    .set({ due_at_ms: nowMs })
    .where('receiver', '=', receiver)
    .where('due_at_ms', '>', nowMs)
    .execute()
}

/** Attempts go on counting: one more failure gives the event up again. Without a webhook nothing is sent. */
export async function makeDue(
  tx: Transaction<Tables>,
  { id, ...log }: LogScope & { readonly id: string },
  nowMs: number,
): Promise<void> {
  const receiver = receiverName(log)
  if (!(await isOpen(tx, receiver))) return
  await tx
    .updateTable('webhook_deliveries')
    .set({ due_at_ms: nowMs, delivered_at_ms: null })
    .where('receiver', '=', receiver)
    .where('workspace_id', '=', log.workspaceId)
    .where('id', '=', id)
    // What is waiting or being sent has a time.
    .where('due_at_ms', 'is', null)
    .execute()
}

/** Newest first, by id: ids grow with time. */
export async function listDeliveries(
  database: Kysely<Tables>,
  { limit, afterId, ...log }: LogScope & PageOptions,
): Promise<{ deliveries: readonly Delivery[]; nextAfterId: string | null }> {
  let query = database
    .selectFrom('webhook_deliveries')
    .selectAll()
    .where('receiver', '=', receiverName(log))
    .where('workspace_id', '=', log.workspaceId)
  if (afterId !== null) query = query.where('id', '<', afterId)
  const newestFirst = query.orderBy('id', 'desc').limit(limit + 1)
  const { rows, next } = takePage(await newestFirst.execute(), limit, ({ id }) => id)
  return { deliveries: rows.map(readDeliveryRow), nextAfterId: next }
}

/** @returns whether there may be more */
export async function purgeDeliveries(tx: Transaction<Tables>, nowMs: number): Promise<boolean> {
  // Of a workspace's webhook that was removed, or while the setting is off, nothing is sent any more.
  const { rows } = await sql`
    delete from webhook_deliveries where (receiver, id) in (
      select receiver, id from webhook_deliveries
      where at_ms < ${nowMs - KEPT_MS} and (due_at_ms is null or ${isOfKind('workspace')}) limit ${PURGED_AT_ONCE})
    returning id`.execute(tx)
  return rows.length === PURGED_AT_ONCE
}

/** Lets a workspace receive events. What waits is sent at once, also if earlier attempts failed. */
export async function openReceiver(tx: Transaction<Tables>, receiver: string, nowMs: number): Promise<void> {
  // A claim stays: its console ends it, and finds that there was no attempt since.
  const rested = { failures: 0, paused_until_ms: 0, attempted_at_ms: NEVER_MS }
  await tx
    .insertInto('webhook_receivers')
    .values({ receiver, claimed_until_ms: 0, ...rested })
    .onConflict(conflict => conflict.column('receiver').doUpdateSet(rested))
    .execute()
  await makeWaitingDue(tx, receiver, nowMs)
}

/** Events that wait are given up. @param reason for the delivery log */
export async function closeReceiver(
  tx: Transaction<Tables>,
  receiver: string,
  reason: string,
): Promise<void> {
  await tx.deleteFrom('webhook_receivers').where('receiver', '=', receiver).execute()
  await tx
    .updateTable('webhook_deliveries')
    .set({ due_at_ms: null, last_error: reason })
    .where('receiver', '=', receiver)
    .where('due_at_ms', 'is not', null)
    .execute()
}

function toDeliveryRow(event: WebhookEvent): DeliveryRow {
  const { receiver: kind, id, workspaceId, keyId, type, deduplicationKey, atMs, body } = event
  return {
    receiver: receiverName({ kind, workspaceId }),
    id,
    workspace_id: workspaceId,
    key_id: keyId,
    type,
    deduplication_key: deduplicationKey,
    at_ms: atMs,
    body,
    attempts: 0,
    due_at_ms: atMs,
    delivered_at_ms: null,
    last_status: null,
    last_error: null,
  }
}

function readDeliveryRow(row: DeliveryRow): Delivery {
  return {
    id: row.id,
    type: row.type,
    keyId: row.key_id,
    atMs: row.at_ms,
    attempts: row.attempts,
    deliveredAtMs: row.delivered_at_ms,
    nextAttemptAtMs: row.due_at_ms,
    lastStatus: row.last_status,
    lastError: row.last_error,
  }
}
