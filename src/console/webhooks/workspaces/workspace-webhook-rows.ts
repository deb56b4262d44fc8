import { type Kysely, sql, type Transaction } from 'kysely'
import { isChosen } from '../../platform/database/chosen-rows.ts'
import type { Dialect } from '../../platform/database/database.ts'
import type { DeliveryRow, Tables, WorkspaceWebhookRow } from '../../platform/database/tables.ts'
import type { DueDelivery } from '../webhook-event.ts'

/** Events of one workspace that wait for an attempt. */
export const MAX_WAITING = 10_000
export const TOO_MANY_WAITING = `Not sent: ${MAX_WAITING} events were waiting`
const REMOVED = 'Not sent: the webhook was removed'

/** A webhook with events that are due now, claimed by this console. */
export interface ClaimedWebhook {
  readonly workspaceId: string
  readonly url: string
  readonly secret: string
  readonly failures: number
  readonly due: readonly DueDelivery[]
}

export interface WebhookClaim {
  readonly nowMs: number
  readonly claimedUntilMs: number
  readonly webhooks: number
  readonly eventsOfEach: number
  readonly dialect: Dialect
}

/** Workspaces with a webhook, for a condition. */
export function withWebhook(database: Kysely<Tables>) {
  return database.selectFrom('workspace_webhooks').select('workspace_id')
}

/** Those of workspaces that have a webhook. Beyond the bound an event is stored as given up, and can be sent again. */
export async function rowsForWorkspaces(
  tx: Transaction<Tables>,
  rows: readonly DeliveryRow[],
): Promise<DeliveryRow[]> {
  const kept: DeliveryRow[] = []
  for (const [workspaceId, ofWorkspace] of Map.groupBy(rows, row => row.workspace_id)) {
    if ((await findWebhook(tx, workspaceId)) === undefined) continue
    const room = MAX_WAITING - (await countWaiting(tx, workspaceId))
    kept.push(
      ...ofWorkspace.map((row, index) =>
        index < room ? row : { ...row, due_at_ms: null, last_error: TOO_MANY_WAITING },
      ),
    )
  }
  return kept
}

async function countWaiting(tx: Transaction<Tables>, workspaceId: string): Promise<number> {
  const { rows } = await sql<{ waiting: number | string }>`
    select count(*) as waiting from (select 1 as one from workspace_notices
      where workspace_id = ${workspaceId} and due_at_ms is not null limit ${MAX_WAITING}) as counted`.execute(
    tx,
  )
  return Number(rows[0]?.waiting ?? 0)
}

export function findWebhook(
  database: Kysely<Tables>,
  workspaceId: string,
): Promise<WorkspaceWebhookRow | undefined> {
  return database
    .selectFrom('workspace_webhooks')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .executeTakeFirst()
}

/** Replaces an earlier one. What waits goes to the new address. */
export async function storeWebhook(tx: Transaction<Tables>, row: WorkspaceWebhookRow): Promise<void> {
  const { workspace_id, claimed_until_ms, ...changed } = row
  await tx
    .insertInto('workspace_webhooks')
    .values(row)
    .onConflict(conflict => conflict.column('workspace_id').doUpdateSet(changed))
    .execute()
}

/** Events that wait are given up. @returns whether there was one */
export async function deleteWebhook(tx: Transaction<Tables>, workspaceId: string): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('workspace_webhooks')
    .where('workspace_id', '=', workspaceId)
    .executeTakeFirst()
  await tx
    .updateTable('workspace_notices')
    .set({ due_at_ms: null, last_error: REMOVED })
    .where('workspace_id', '=', workspaceId)
    .where('due_at_ms', 'is not', null)
    .execute()
  return numDeletedRows > 0n
}

/** The webhooks that have waited longest for an attempt, each with a few events: none waits for another's backlog. */
export async function claimWebhooks(
  tx: Transaction<Tables>,
  { nowMs, claimedUntilMs, webhooks, eventsOfEach, dialect }: WebhookClaim,
): Promise<ClaimedWebhook[]> {
  const longestWaiting = sql`
    select workspace_id from workspace_webhooks
    where claimed_until_ms <= ${nowMs} and paused_until_ms <= ${nowMs} and exists (
      select 1 from workspace_notices
      where workspace_notices.workspace_id = workspace_webhooks.workspace_id and due_at_ms <= ${nowMs})
    order by attempted_at_ms, workspace_id limit ${webhooks}`
  const { rows } = await sql<WorkspaceWebhookRow>`
    update workspace_webhooks set claimed_until_ms = ${claimedUntilMs}, attempted_at_ms = ${nowMs}
    where ${isChosen(sql`workspace_id`, longestWaiting, dialect)}
    returning workspace_id, url, secret, failures`.execute(tx)
  const claimed: ClaimedWebhook[] = []
  for (const { workspace_id: workspaceId, url, secret, failures } of rows) {
    // The claim on the webhook keeps other consoles from these.
    const oldest = sql`
      select id from workspace_notices
      where workspace_id = ${workspaceId} and due_at_ms <= ${nowMs} order by due_at_ms, id limit ${eventsOfEach}`
    const due = await sql<Pick<DeliveryRow, 'id' | 'body' | 'attempts'>>`
      update workspace_notices set due_at_ms = ${claimedUntilMs} where ${isChosen(sql`id`, oldest, dialect)}
      returning id, body, attempts`.execute(tx)
    claimed.push({ workspaceId, url, secret, failures, due: due.rows })
  }
  return claimed
}

/** Ends a claim. */
export async function releaseWebhook(
  tx: Transaction<Tables>,
  workspaceId: string,
  { failures, pausedUntilMs }: { readonly failures: number; readonly pausedUntilMs: number },
): Promise<void> {
  await tx
    .updateTable('workspace_webhooks')
    .set({ claimed_until_ms: 0, failures, paused_until_ms: pausedUntilMs })
    .where('workspace_id', '=', workspaceId)
    .execute()
}
