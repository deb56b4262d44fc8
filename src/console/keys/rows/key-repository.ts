import { type Kysely, sql, type Transaction } from 'kysely'
import type { Clock } from '../../../domain/clock.ts'
import type { KeyRecord, StoredKey } from '../../../domain/key/key-record.ts'
import { createAuditQueue, readAuditRow } from '../../platform/audit/chain.ts'
import { type AuditEntry, isLeak } from '../../platform/audit/entries.ts'
import { type AuditedDatabase, genuineRows } from '../../platform/audit/mac.ts'
import type { Dialect } from '../../platform/database/database.ts'
import { firstIdAt } from '../../platform/database/ids.ts'
import { readKeyRow } from '../../platform/database/key-row.ts'
import { type PageOptions, takePage } from '../../platform/database/query-parts.ts'
import type { Tables } from '../../platform/database/tables.ts'
import { findResponse, type Idempotency, purgeResponses } from '../../platform/http/idempotency.ts'
import { shareBatches } from '../../platform/jobs/share-runs.ts'
import {
  countByState,
  countForSync,
  countInWorkspace,
  countKeys,
  countLive,
  countStates,
  countUnused,
  type ExpiryBounds,
} from '../search/count-keys.ts'
import type { KeyQuery, KeySelector } from '../search/key-query.ts'
import { SEARCH_BOUNDS, type SearchBounds, searchKeys } from '../search/search-keys.ts'
import {
  type BulkPlanChange,
  type BulkRevocation,
  givePlan,
  importKeys,
  type KeyImport,
  type LiveRange,
  listLive,
  newestKeyId,
  revokeKeys,
} from './bulk-rows.ts'
import { createCommit } from './commit.ts'
import { changePlan, countByPlan, findPlans, type PlanChange } from './plans.ts'

/** Keys that a statement of a sync reads, expired ones included. */
const EXAMINED_AT_ONCE = 10_000
/** A key in constant use is written once a second, not for each report. */
const ACCURACY_MS = 1000

const HOUR_MS = 3_600_000
/** An entry that no console wrote may come first, and is left out. */
const MAX_BEFORE_ORIGIN = 20
/** More than an operation writes for one key. */
const MAX_LEAKS = 20

/**
 * The system of record: the statements about keys, bound to one database. A change to a key, its audit entry and its place in
 * the outbox are one transaction: a crash loses none of them.
 */
export type KeyRepository = ReturnType<typeof createKeyRepository>

interface KeyRepositoryParts {
  readonly database: AuditedDatabase
  /** The time of commits. */
  readonly clock: Clock
}

export function createKeyRepository(parts: KeyRepositoryParts, bounds: SearchBounds = SEARCH_BOUNDS) {
  return {
    ...createWrites(parts),
    ...createReads(parts),
    ...createSearches(parts, bounds),
    ...createHistory(parts),
  }
}

function createWrites({ database: { dialect, audit, changes }, clock }: KeyRepositoryParts) {
  const now = () => clock.wallMs()
  const target = { changes, now, dialect, audit }
  return {
    commit: createCommit({ ...target, auditQueue: createAuditQueue(target) }),
    revokeKeys: (revocation: BulkRevocation) => revokeKeys(revocation, target),
    importKeys: (keys: KeyImport) => importKeys(keys, target),
    givePlan: (change: BulkPlanChange) => givePlan(change, target),
    changePlan: (change: PlanChange) => changePlan(change, target),
    recordUse: (lastUsedMs: ReadonlyMap<string, number>) =>
      changes.run(tx => recordUse(tx, lastUsedMs, dialect)),
    /** Deletes responses past their retention. */
    async purge(): Promise<void> {
      while (await changes.run(tx => purgeResponses(tx, now()))) {}
    },
  }
}

function createReads({ database, clock }: KeyRepositoryParts) {
  const { reader, dialect } = database
  const share = chooseSharing(database)
  // What each change reads.
  const keysById = share((ids: readonly string[]) => findKeys(reader, 'id', ids))
  const usesById = share((ids: readonly string[]) => lastUses(reader, ids))
  return {
    findById: async (id: string): Promise<StoredKey | null> => (await keysById([id])).get(id) ?? null,
    findByDigest: async (digest: string): Promise<StoredKey | null> =>
      (await findKeys(reader, 'digest', [digest])).get(digest) ?? null,
    findByDigests: (digests: readonly string[]) => findKeys(reader, 'digest', digests),
    findByIds: (ids: readonly string[]) => findKeys(reader, 'id', ids),
    /** When the present version of the key was committed; null without the key. */
    findCommitTime: async (id: string): Promise<number | null> => {
      const query = reader.selectFrom('keys').select('changed_at_ms').where('id', '=', id)
      return (await query.executeTakeFirst())?.changed_at_ms ?? null
    },
    lastUses: (ids: readonly string[]) => usesById(ids),
    /** Newest first, by id: ids grow with time, and new keys never move a page. */
    async list({ workspaceId, limit, afterId }: PageOptions): Promise<KeyPage> {
      let query = selectKeys(reader).where('workspace_id', '=', workspaceId)
      if (afterId !== null) query = query.where('id', '<', afterId)
      const newestFirst = query.orderBy('id', 'desc').limit(limit + 1)
      const { rows, next } = takePage(await newestFirst.execute(), limit, ({ id }) => id)
      return { keys: rows.map(readKeyRow), nextAfterId: next }
    },
    listForSync: (range: SyncRange) => listForSync(reader, range),
    countForSync: (expiresAfterMs: number) => countForSync(reader, expiresAfterMs, dialect),
    countByState: (bounds: ExpiryBounds) => countByState(reader, bounds, dialect),
    findPlan: async (workspaceId: string) =>
      (await findPlans(reader, [workspaceId])).get(workspaceId) ?? null,
    findPlans: (workspaceIds: readonly string[]) => findPlans(reader, workspaceIds),
    newestKeyId: (workspaceId: string) => newestKeyId(reader, workspaceId),
    listLive: (range: LiveRange) => listLive(reader, range, clock.wallMs()),
    findResponse: (idempotency: Idempotency) => findResponse(reader, idempotency, clock.wallMs()),
  }
}

function createSearches({ database, clock }: KeyRepositoryParts, bounds: SearchBounds) {
  const { reader, dialect, hasTextIndex } = database
  const now = () => clock.wallMs()
  const context = () => ({ nowMs: now(), dialect, hasTextIndex, bounds })
  return {
    search: (query: KeyQuery) => searchKeys(reader, query, context()),
    count: (selector: KeySelector) => countKeys(reader, selector, { ...context(), clock }),
    countStates: (workspaceIds: readonly string[], maxCounted: number | null) =>
      countStates(reader, workspaceIds, maxCounted, context()),
    countInWorkspace: (workspaceId: string) => countInWorkspace(reader, workspaceId, context()),
    countByPlan: () => countByPlan(reader, { ...context(), clock }),
    countLive: (workspaceId: string) => countLive(reader, workspaceId, now()),
    countUnused: (workspaceId: string) => countUnused(reader, workspaceId, now()),
  }
}

/** What the audit log says of a key. */
function createHistory({ database: { reader, audit } }: KeyRepositoryParts) {
  return {
    /** The entry of issuing the key, or of the rotation that did; null if there is none. */
    async findOrigin({ id, workspaceId, rotatedFrom, createdAtMs }: KeyRecord): Promise<AuditEntry | null> {
      const ids = rotatedFrom === null ? [id] : [id, rotatedFrom]
      const rows = await selectEntries(reader, workspaceId, createdAtMs)
        .where('key_id', 'in', ids)
        // Also where there is no such entry, not the whole audit log is read.
        .where('id', '<', firstIdAt('audit', createdAtMs + HOUR_MS))
        .orderBy('id')
        .limit(MAX_BEFORE_ORIGIN)
        .execute()
      const [first] = genuineRows(rows, audit)
      return first === undefined ? null : readAuditRow(first)
    },
    /** Entries about a key since a time, newest first. */
    async listHistory(
      { id, workspaceId }: Pick<KeyRecord, 'id' | 'workspaceId'>,
      { sinceMs, limit }: { readonly sinceMs: number; readonly limit: number },
    ): Promise<AuditEntry[]> {
      const rows = await selectEntries(reader, workspaceId, sinceMs)
        // A change of the plan of the workspace has no key, and may concern this one.
        .where(row =>
          row.or([
            row('key_id', '=', id),
            row.and([row('key_id', '=', ''), row('action', '=', 'workspace.plan_changed')]),
          ]),
        )
        .orderBy('id', 'desc')
        .limit(limit)
        .execute()
      return genuineRows(rows, audit).map(readAuditRow)
    },
    /** Entries that report the key as leaked, newest first. */
    async listLeaks(keyId: string): Promise<AuditEntry[]> {
      const rows = await reader
        .selectFrom('audit')
        .selectAll()
        .where('key_id', '=', keyId)
        .where('action', 'in', ['key.revoked', 'key.reported'])
        .orderBy('id', 'desc')
        .limit(MAX_LEAKS)
        .execute()
      return genuineRows(rows, audit).map(readAuditRow).filter(isLeak)
    },
  }
}

/** On PostgreSQL a burst of reads would wait for the few connections. */
function chooseSharing({ dialect }: AuditedDatabase): typeof shareBatches {
  return dialect === 'postgres' ? shareBatches : read => read
}

export interface KeyPage {
  readonly keys: readonly StoredKey[]
  /** Where the next page starts; null on the last. */
  readonly nextAfterId: string | null
}

/** Keys by id. */
interface SyncRange {
  /** Those that expire later; null: all. */
  readonly expiresAfterMs: number | null
  readonly limit: number
  readonly afterId: string | null
}

/** Those that exist, by the values of the column; in one query. */
async function findKeys(
  database: Kysely<Tables>,
  column: 'id' | 'digest',
  values: readonly string[],
): Promise<ReadonlyMap<string, StoredKey>> {
  if (values.length === 0) return new Map()
  const rows = await selectKeys(database).where(column, 'in', values).execute()
  return new Map(rows.map(row => [row[column], readKeyRow(row)]))
}

/**
 * Oldest first, in any state. A page may be shorter than the limit, or empty: a statement examines a bounded number of keys. Of millions most may have
 * expired, and passing over all of them would take longer than a statement may.
 */
async function listForSync(
  database: Kysely<Tables>,
  { expiresAfterMs, limit, afterId }: SyncRange,
): Promise<KeyPage> {
  const endId = expiresAfterMs === null ? null : await findStretchEnd(database, afterId ?? '')
  let query = selectKeys(database)
    .where('id', '>', afterId ?? '')
    .orderBy('id')
    .limit(limit + 1)
  if (expiresAfterMs !== null) query = query.where('expires_at_ms', '>', expiresAfterMs)
  if (endId !== null) query = query.where('id', '<=', endId)
  const { rows, next } = takePage(await query.execute(), limit, ({ id }) => id, endId)
  return { keys: rows.map(readKeyRow), nextAfterId: next }
}

/** @returns null if fewer keys are left than a stretch has */
async function findStretchEnd(database: Kysely<Tables>, afterId: string): Promise<string | null> {
  const ids = database.selectFrom('keys').select('id').where('id', '>', afterId).orderBy('id')
  const end = await ids
    .offset(EXAMINED_AT_ONCE - 1)
    .limit(1)
    .executeTakeFirst()
  return end?.id ?? null
}

function selectKeys(database: Kysely<Tables>) {
  return database.selectFrom('keys').selectAll()
}

/**
 * Moves each time forward only, by at least a second; unknown ids are ignored. A use is never earlier than the key, although gateways may round it down to the minute. One statement in one order, so
 * that concurrent reports about the same keys cannot deadlock.
 */
async function recordUse(
  tx: Transaction<Tables>,
  lastUsedMs: ReadonlyMap<string, number>,
  dialect: Dialect,
): Promise<void> {
  const reported = JSON.stringify(Object.fromEntries(lastUsedMs))
  const used =
    dialect === 'sqlite'
      ? sql`json_each(${reported}) as used`
      : sql`json_each_text(${reported}::json) as used (key, value)`
  const usedAtMs = sql`cast(used.value as bigint)`
  await sql`
    insert into key_use (key_id, workspace_id, last_used_at_ms)
    select keys.id, keys.workspace_id,
      case when ${usedAtMs} < created_at_ms then created_at_ms else ${usedAtMs} end from ${used} join keys on keys.id = used.key
    where true order by keys.id
    on conflict (key_id) do update set last_used_at_ms = excluded.last_used_at_ms
    where excluded.last_used_at_ms >= key_use.last_used_at_ms + ${ACCURACY_MS}`.execute(tx)
}

/** Only of keys that were ever used. */
async function lastUses(
  database: Kysely<Tables>,
  ids: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  if (ids.length === 0) return new Map()
  const rows = await database
    .selectFrom('key_use')
    .selectAll()
    .where('key_id', 'in', ids)
    .where('last_used_at_ms', '>', 0)
    .execute()
  return new Map(rows.map(row => [row.key_id, row.last_used_at_ms]))
}

/** By id, which grows with time, so that the index of the workspace finds them. */
function selectEntries(database: Kysely<Tables>, workspaceId: string, sinceMs: number) {
  return database
    .selectFrom('audit')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .where('id', '>=', firstIdAt('audit', sinceMs))
}
