import { type Kysely, sql, type Transaction } from 'kysely'
import type { KeyRecord, StoredKey } from '../../../domain/key/key-record.ts'
import type { PendingChange } from '../../announcing/index.ts'
import { appendAudit, type WritableAudit } from '../../platform/audit/chain.ts'
import type { AuditEntry } from '../../platform/audit/entries.ts'
import { AuditWriteError } from '../../platform/database/database-unavailable.ts'
import { isLive, readKeyRow, toKeyRow } from '../../platform/database/key-row.ts'
import type { Tables } from '../../platform/database/tables.ts'
import type { WebhookEvent } from '../../webhooks/index.ts'
import { writeEffects } from './commit.ts'
import { areCurrent, type WorkspacePlans } from './plans.ts'

/** Rows of one statement: SQLite binds at most 32,766 values. */
const ROWS_AT_ONCE = 500

/** What belongs to the change of one key. @param key as changed */
type DescribeChange = (key: StoredKey) => {
  readonly audit: AuditEntry
  readonly events: readonly WebhookEvent[]
}

/** Keys to revoke in one transaction. */
export interface BulkRevocation {
  readonly ids: readonly string[]
  readonly describeChange: DescribeChange
}

/** Keys to give a plan in one transaction, which the audit log names as one change of their workspace. */
export interface BulkPlanChange {
  readonly ids: readonly string[]
  readonly plan: string | null
}

/** Keys of another system, in one transaction. */
export interface KeyImport {
  /** Each digest once. */
  readonly keys: readonly StoredKey[]
  /** The plans that their workspaces must have still. */
  readonly workspacePlans: WorkspacePlans
  readonly describeChange: DescribeChange
}

/** The keys that were changed. */
export interface BulkChanged {
  readonly keys: readonly StoredKey[]
  /** One for each key, in the same order. */
  readonly pending: readonly PendingChange[]
}

/** The effect of `planRevocation` on many keys, in the order of their ids; keys that have ended stay as they are. */
export function revokeKeys(
  { ids, describeChange }: BulkRevocation,
  target: WritableAudit,
): Promise<BulkChanged> {
  return changeAll(describeChange, target, async (tx, nowMs) => {
    await lockKeys(tx, ids, target)
    const rows = await tx
      .updateTable('keys')
      .set(row => ({
        revoked_at_ms: nowMs,
        suspended_at_ms: null satisfies KeyRecord['suspendedAtMs'],
        version: row('version', '+', 1),
        changed_at_ms: nowMs,
      }))
      .where('id', 'in', ids)
      .where(isLive(nowMs))
      .returningAll()
      .execute()
    return rows.map(readKeyRow).sort(byId)
  })
}

/** Gives keys that have not ended another plan; those that have it stay as they are. */
export function givePlan({ ids, plan }: BulkPlanChange, target: WritableAudit): Promise<BulkChanged> {
  return changeAll(null, target, async (tx, nowMs) => {
    await lockKeys(tx, ids, target)
    const rows = await tx
      .updateTable('keys')
      .set(row => ({ plan, version: row('version', '+', 1), changed_at_ms: nowMs }))
      .where('id', 'in', ids)
      .where(isLive(nowMs))
      .where('plan', 'is distinct from', plan)
      .returningAll()
      .execute()
    return rows.map(readKeyRow).sort(byId)
  })
}

/** In the order of every other writer. */
async function lockKeys(
  tx: Transaction<Tables>,
  ids: readonly string[],
  { dialect }: WritableAudit,
): Promise<void> {
  if (dialect !== 'postgres') return
  await tx.selectFrom('keys').select('id').where('id', 'in', ids).orderBy('id').forUpdate().execute()
}

function byId(a: StoredKey, b: StoredKey): number {
  return a.record.id < b.record.id ? -1 : 1
}

/** The plan of a workspace is no longer the one that its keys were planned with: nothing was written. */
export class PlansChanged extends Error {}

/** Inserts the keys whose digests do not exist. */
export function importKeys(
  { keys, workspacePlans, describeChange }: KeyImport,
  target: WritableAudit,
): Promise<BulkChanged> {
  return changeAll(describeChange, target, async (tx, nowMs) => {
    if (!(await areCurrent(tx, workspacePlans, target.dialect))) throw new PlansChanged()
    // Of two imports at once, one waits for the digests of the other: in one order, so that neither waits for the other.
    const sorted = keys.toSorted((a, b) => (a.digest < b.digest ? -1 : 1))
    const inserted = new Set<string>()
    for (let from = 0; from < sorted.length; from += ROWS_AT_ONCE) {
      const rows = sorted.slice(from, from + ROWS_AT_ONCE).map(key => toKeyRow(key, nowMs))
      const query = tx.insertInto('keys').values(rows)
      const added = await query
        .onConflict(conflict => conflict.column('digest').doNothing())
        .returning('digest')
        .execute()
      for (const { digest } of added) inserted.add(digest)
    }
    return keys.filter(({ digest }) => inserted.has(digest))
  })
}

/** Changes many keys with all that belongs to each: all or nothing. @param describeChange null if nothing belongs to one key */
async function changeAll(
  describeChange: DescribeChange | null,
  target: WritableAudit,
  change: (tx: Transaction<Tables>, nowMs: number) => Promise<StoredKey[]>,
): Promise<BulkChanged> {
  try {
    return await target.changes.run(async tx => {
      const nowMs = target.now()
      const keys = await change(tx, nowMs)
      const described = describeChange === null ? [] : keys.map(describeChange)
      const events = described.flatMap(change => change.events)
      const audit = described.map(change => change.audit)
      const pending = await writeEffects(tx, { keys, events, audit, nowMs }, (tx, entries) =>
        appendAudit(tx, entries, target),
      )
      return { keys, pending }
    })
  } catch (error) {
    // The audit entries are part of the transaction: neither was written.
    throw error instanceof PlansChanged ? error : AuditWriteError.of(error)
  }
}

/** A key that has not ended, by its expiry. */
export interface LivePosition {
  readonly expiresAtMs: number
  readonly id: string
}

/** Where to look for keys of a workspace that have not ended. */
export interface LiveRange {
  readonly workspaceId: string
  readonly after: LivePosition | null
  /** The greatest id, inclusive. */
  readonly untilId: string
  /** Leaves out keys with this plan; absent: none. */
  readonly withoutPlan?: string | null | undefined
  readonly limit: number
}

/** Neither revoked nor expired, in the order of the index that holds both: those that expire first come first. */
export async function listLive(
  database: Kysely<Tables>,
  { workspaceId, after, untilId, withoutPlan, limit }: LiveRange,
  nowMs: number,
): Promise<LivePosition[]> {
  const start = after ?? { expiresAtMs: nowMs + 1, id: '' }
  const others = withoutPlan === undefined ? sql`` : sql`and plan is distinct from ${withoutPlan}`
  const { rows } = await sql<{ id: string; expires_at_ms: number }>`
    select id, expires_at_ms from keys
    where workspace_id = ${workspaceId} and (expires_at_ms, id) > (${start.expiresAtMs}, ${start.id})
      and ${isLive(nowMs)} and id <= ${untilId} ${others}
    order by expires_at_ms, id limit ${limit}`.execute(database)
  return rows.map(({ id, expires_at_ms }) => ({ id, expiresAtMs: expires_at_ms }))
}

/** The newest key of a workspace, in any state. */
export async function newestKeyId(database: Kysely<Tables>, workspaceId: string): Promise<string | null> {
  const query = database.selectFrom('keys').select('id').where('workspace_id', '=', workspaceId)
  return (await query.orderBy('id', 'desc').limit(1).executeTakeFirst())?.id ?? null
}
