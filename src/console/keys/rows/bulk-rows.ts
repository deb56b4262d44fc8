import { type Kysely, sql, type Transaction } from 'kysely'
import type { KeyRecord, StoredKey } from '../../../domain/key/key-record.ts'
import { type PendingChange, toPendingChange } from '../../announcing/index.ts'
import { appendAudit, type WritableAudit } from '../../platform/audit/chain.ts'
import type { AuditEntry } from '../../platform/audit/entries.ts'
import type { Database } from '../../platform/database/database.ts'
import { AuditWriteError } from '../../platform/database/database-unavailable.ts'
import { isLive, readKeyRow, toKeyRow } from '../../platform/database/key-row.ts'
import { inBatches } from '../../platform/database/query-parts.ts'
import type { KeyRow, Tables } from '../../platform/database/tables.ts'
import type { WebhookEvent } from '../../webhooks/index.ts'
import { areCurrent, type WorkspacePlans } from './plans.ts'
import { lockKeys, replaceKeys, writeEffects } from './write-keys.ts'

/** Rows of one statement: SQLite binds at most 32,766 values. */
const ROWS_AT_ONCE = 500

/**
 * Keys of one transaction, which are then announced at once: few enough for heartbeats to go out in between. SQLite commits in the
 * event loop.
 */
const LIVE_AT_ONCE = { sqlite: 100, postgres: 250 } as const

/** Keys whose plan one statement reads: `node:sqlite` blocks the event loop meanwhile. */
const EXAMINED_AT_ONCE = 1000

/** What belongs to the change of one key. @param key as changed */
type DescribeChange = (key: StoredKey) => {
  readonly audit: AuditEntry
  readonly events: readonly WebhookEvent[]
}

/** Stored keys to change in one transaction. */
export interface BulkKeyChange {
  readonly ids: readonly string[]
  /** @returns the next version of a key, or the same record if it stays as it is */
  readonly plan: (record: KeyRecord, nowMs: number) => KeyRecord
  /** Null if nothing belongs to one key, such as where the audit log names one change of their workspace. */
  readonly describeChange: DescribeChange | null
  /** The plans that their workspaces must have still. Absent where the plan does not matter. */
  readonly workspacePlans?: WorkspacePlans
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

/** Changing many keys in one transaction, and what finds them. */
export type BulkChanges = ReturnType<typeof createBulkChanges>

export function createBulkChanges(target: WritableAudit & Pick<Database, 'reader'>) {
  const { reader, dialect } = target
  return {
    changeKeys: (change: BulkKeyChange) => changeKeys(change, target),
    importKeys: (keys: KeyImport) => importKeys(keys, target),
    /** The next of them, as many as one transaction should change. */
    listLive: (range: LiveRange) =>
      listLive(reader, range, { limit: LIVE_AT_ONCE[dialect], nowMs: target.now() }),
    listSuccessors: (range: Omit<LiveRange, 'after'>) =>
      listSuccessors(reader, range, { limit: LIVE_AT_ONCE[dialect], nowMs: target.now() }),
    newestKeyId: (workspaceId: string) => newestKeyId(reader, workspaceId),
  }
}

/** In the order of their ids. @throws PlansChanged */
function changeKeys(
  { ids, plan, describeChange, workspacePlans = new Map() }: BulkKeyChange,
  target: WritableAudit,
): Promise<BulkChanged> {
  const { dialect } = target
  return changeAll(describeChange, target, async (tx, nowMs) => {
    if (workspacePlans.size > 0 && !(await areCurrent(tx, workspacePlans, dialect))) throw new PlansChanged()
    const keys: StoredKey[] = []
    const before: KeyRow[] = []
    for (const row of await lockKeys(tx, ids, dialect).selectAll().execute()) {
      const { record, digest } = readKeyRow(row)
      const next = plan(record, nowMs)
      if (next === record) continue
      keys.push({ record: next, digest })
      before.push(row)
    }
    await replaceKeys(tx, keys, { nowMs, dialect, before })
    return keys
  })
}

/** The plan of a workspace is no longer the one that its keys were planned with: nothing was written. */
export class PlansChanged extends Error {}

/** Inserts the keys whose digests do not exist. */
function importKeys(
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

/** Changes many keys with all that belongs to each: all or nothing. */
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
      const pending = keys.map(key => toPendingChange(key, nowMs))
      await writeEffects(tx, { pending, events, audit }, (tx, entries) => appendAudit(tx, entries, target))
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
}

/**
 * Neither revoked nor expired, in the order of the index that holds both: those that expire first come first. The index has no plan:
 * where most keys have the one that is left out, a statement examines a bounded number.
 */
async function listLive(
  database: Kysely<Tables>,
  { workspaceId, after, untilId, withoutPlan }: LiveRange,
  { limit, nowMs }: { readonly limit: number; readonly nowMs: number },
): Promise<LivePosition[]> {
  const start = after ?? { expiresAtMs: nowMs + 1, id: '' }
  const size = withoutPlan === undefined ? limit : EXAMINED_AT_ONCE
  const readAfter = async (last: LiveKey | null): Promise<readonly LiveKey[]> => {
    const { expiresAtMs, id } = last ?? start
    const query = database
      .selectFrom('keys')
      .select(['id', 'expires_at_ms as expiresAtMs', 'plan'])
      .where('workspace_id', '=', workspaceId)
      .where(sql<boolean>`(expires_at_ms, id) > (${expiresAtMs}, ${id})`)
      .where('id', '<=', untilId)
      .where(isLive(nowMs))
    return query.orderBy('expires_at_ms').orderBy('id').limit(size).execute()
  }
  for await (const keys of inBatches(size, readAfter)) {
    const others = withoutPlan === undefined ? keys : keys.filter(({ plan }) => plan !== withoutPlan)
    if (others.length > 0) return others.slice(0, limit)
  }
  return []
}

interface LiveKey extends LivePosition {
  readonly plan: string | null
}

/** Those that have not ended and that rotations, one or several, have put in the place of keys of the range. */
async function listSuccessors(
  database: Kysely<Tables>,
  { workspaceId, untilId }: Omit<LiveRange, 'after'>,
  { limit, nowMs }: { readonly limit: number; readonly nowMs: number },
): Promise<readonly string[]> {
  const later = sql`workspace_id = ${workspaceId} and id > ${untilId}`
  const { rows } = await sql<{ id: string }>`
    with recursive later as (select id, rotated_from from keys where ${later} and rotated_from is not null),
      successors (id) as (
        select id from later where rotated_from <= ${untilId}
        union select later.id from later join successors on later.rotated_from = successors.id)
    select id from keys where ${later} and id in (select id from successors) and ${isLive(nowMs)}
    order by id limit ${limit}`.execute(database)
  return rows.map(({ id }) => id)
}

/** The newest key of a workspace, in any state. */
async function newestKeyId(database: Kysely<Tables>, workspaceId: string): Promise<string | null> {
  const query = database.selectFrom('keys').select('id').where('workspace_id', '=', workspaceId)
  return (await query.orderBy('id', 'desc').limit(1).executeTakeFirst())?.id ?? null
}
