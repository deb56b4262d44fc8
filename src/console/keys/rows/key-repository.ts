import type { Clock } from '../../../domain/clock.ts'
import type { KeyRecord, StoredKey } from '../../../domain/key/key-record.ts'
import { createAnnouncingRepository, purgeAnnouncing } from '../../announcing/index.ts'
import { type ChainHead, isInChain, readHead, signAgain } from '../../platform/audit/chain.ts'
import type { AuditedDatabase } from '../../platform/audit/mac.ts'
import { createAuditQueue } from '../../platform/audit/queue.ts'
import { shareBatches } from '../../platform/batch/share-runs.ts'
import { type ChangeWriter, createChangeWriter } from '../../platform/database/change-writer.ts'
import type { PageOptions } from '../../platform/database/first-rows.ts'
import type { Idempotency } from '../../platform/http/idempotency.ts'
import { countInWorkspace, countLive } from '../search/count-in-workspace.ts'
import { countKeys } from '../search/count-keys.ts'
import { countUnused } from '../search/count-unused.ts'
import type { KeyQuery, KeySelector, WorkspaceQuery } from '../search/key-query.ts'
import { listWorkspaces } from '../search/list-workspaces.ts'
import { SEARCH_BOUNDS, type SearchBounds } from '../search/ordered-keys.ts'
import { searchKeys } from '../search/search-keys.ts'
import {
  type BulkRevocation,
  importKeys,
  type KeyImport,
  type LiveRange,
  listLive,
  newestKeyId,
  revokeKeys,
} from './bulk-rows.ts'
import { createCommit } from './commit.ts'
import { countByState, countForSync, type ExpiryBounds } from './count-rows.ts'
import { findOrigin, type HistorySpan, listHistory, listLeaks } from './key-history.ts'
import {
  findKey,
  findKeys,
  type KeySelection,
  lastUses,
  listForSync,
  listKeys,
  recordUse,
  type SyncRange,
} from './key-rows.ts'
import { findResponse, probeWrite, purgeResponses } from './response-rows.ts'

/**
 * The system of record: the statements of this capability, and of those whose tables a change writes, bound to one database. A
 * change to a key, its audit entry and its place in the outbox are one transaction: a crash loses none of them.
 */
export type KeyRepository = ReturnType<typeof createKeyRepository>

/**
 * @param clock the time of commits
 * @param consoleId distinguishes this console's outbox claims
 */
export function createKeyRepository(
  database: AuditedDatabase,
  clock: Clock,
  consoleId: string,
  bounds: SearchBounds = SEARCH_BOUNDS,
) {
  const writer = createChangeWriter(database)
  const parts: Parts = { database, writer, clock, consoleId, now: () => clock.wallMs() }
  return {
    ...writesOf(parts),
    ...readsOf(parts),
    ...searchesOf(parts, bounds),
    ...auditOf(database),
    ...createAnnouncingRepository(parts),
    close: database.close,
  }
}

interface Parts {
  readonly database: AuditedDatabase
  readonly writer: ChangeWriter
  readonly clock: Clock
  readonly consoleId: string
  readonly now: () => number
}

function writesOf({ database, writer, consoleId, now }: Parts) {
  const { dialect, audit } = database
  const target = { now, dialect, audit }
  const auditQueue = createAuditQueue(writer, target)
  return {
    commit: createCommit(writer, { ...target, auditQueue }),
    revokeKeys: (revocation: BulkRevocation) => revokeKeys(writer, revocation, target),
    importKeys: (keys: KeyImport) => importKeys(writer, keys, target),
    recordUse: (lastUsedMs: ReadonlyMap<string, number>) =>
      writer.run(tx => recordUse(tx, lastUsedMs, dialect)),
    /** Adds to the chain what a console that died has committed and not added. */
    chainAudit: () => auditQueue.chainLeft(),
    /** Signs with the first signing secret what an earlier one has signed, so that it can be verified without that one. */
    signAuditAgain: () => signAgain(writer, target),
    /** Commits a write as large as that of an ordinary change, which leaves nothing behind. */
    probeWrite: () => writer.announce(tx => probeWrite(tx, consoleId, now())),
    /** Deletes responses and confirmations past their retention. */
    async purge(): Promise<void> {
      while (await writer.run(tx => purgeResponses(tx, now()))) {}
      await purgeAnnouncing({ database, writer, consoleId, now })
    },
  }
}

function readsOf({ database, now }: Parts) {
  const { reader, dialect } = database
  const share = shareOf(database)
  // What each change reads.
  const keysById = share((ids: readonly string[]) => findKeys(reader, 'id', ids))
  const usesById = share((ids: readonly string[]) => lastUses(reader, ids))
  return {
    findById: async (id: string): Promise<StoredKey | null> => (await keysById([id])).get(id) ?? null,
    findByDigest: (digest: string) => findKey(reader, 'digest', digest),
    findByDigests: (digests: readonly string[]) => findKeys(reader, 'digest', digests),
    findByIds: (ids: readonly string[]) => findKeys(reader, 'id', ids),
    lastUses: (ids: readonly string[]) => usesById(ids),
    list: (page: PageOptions & { readonly selection?: KeySelection | null }) => listKeys(reader, page),
    listForSync: (range: SyncRange) => listForSync(reader, range),
    countForSync: (expiresAfterMs: number) => countForSync(reader, expiresAfterMs, dialect),
    countByState: (bounds: ExpiryBounds) => countByState(reader, bounds, dialect),
    newestKeyId: (workspaceId: string) => newestKeyId(reader, workspaceId),
    listLive: (range: LiveRange) => listLive(reader, range, now()),
    findResponse: (idempotency: Idempotency) => findResponse(reader, idempotency, now()),
  }
}

function searchesOf({ database, clock, now }: Parts, bounds: SearchBounds) {
  const { reader, dialect, hasTextIndex } = database
  const context = () => ({ nowMs: now(), dialect, hasTextIndex, bounds })
  return {
    search: (query: KeyQuery) => searchKeys(reader, query, context()),
    count: (selector: KeySelector) => countKeys(reader, selector, { ...context(), clock }),
    listWorkspaces: (query: WorkspaceQuery) => listWorkspaces(reader, query, context()),
    countInWorkspace: (workspaceId: string) => countInWorkspace(reader, workspaceId, now()),
    countLive: (workspaceId: string) => countLive(reader, workspaceId, now()),
    countUnused: (workspaceId: string) => countUnused(reader, workspaceId, now()),
  }
}

function auditOf({ reader, audit }: AuditedDatabase) {
  return {
    auditHead: () => readHead(reader),
    /** Whether the entry that was the newest once is still in the chain. */
    isInAudit: (head: ChainHead) => isInChain(reader, head, audit),
    findOrigin: (record: KeyRecord) => findOrigin(reader, record, audit),
    listHistory: (key: Pick<KeyRecord, 'id' | 'workspaceId'>, span: HistorySpan) =>
      listHistory(reader, key, span, audit),
    listLeaks: (keyId: string) => listLeaks(reader, keyId, audit),
  }
}

/** On PostgreSQL a burst of reads would wait for the few connections. */
function shareOf({ dialect }: AuditedDatabase): typeof shareBatches {
  return dialect === 'postgres' ? shareBatches : read => read
}
