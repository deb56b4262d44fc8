import type { Clock } from '../../../domain/clock.ts'
import type { KeyRecord, StoredKey } from '../../../domain/key/key-record.ts'
import type { AuditedDatabase } from '../../platform/audit/mac.ts'
import { createAuditQueue } from '../../platform/audit/queue.ts'
import type { ChangeWriter } from '../../platform/database/change-writer.ts'
import type { PageOptions } from '../../platform/database/first-rows.ts'
import { findResponse, type Idempotency, purgeResponses } from '../../platform/http/idempotency.ts'
import { shareBatches } from '../../platform/jobs/share-runs.ts'
import { countKeys, countLive, countUnused } from '../search/count-keys.ts'
import { countByState, countForSync, countInWorkspace, type ExpiryBounds } from '../search/count-states.ts'
import type { KeyQuery, KeySelector } from '../search/key-query.ts'
import { listWorkspaces, type WorkspaceQuery } from '../search/list-workspaces.ts'
import { SEARCH_BOUNDS, type SearchBounds, searchKeys } from '../search/search-keys.ts'
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
import { findOrigin, type HistorySpan, listHistory, listLeaks } from './key-history.ts'
import { findKeys, lastUses, listForSync, listKeys, recordUse, type SyncRange } from './key-queries.ts'

/**
 * The system of record: the statements about keys, bound to one database. A change to a key, its audit entry and its place in
 * the outbox are one transaction: a crash loses none of them.
 */
export type KeyRepository = ReturnType<typeof createKeyRepository>

interface KeyRepositoryParts {
  readonly database: AuditedDatabase
  readonly writer: ChangeWriter
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

function createWrites({ database: { dialect, audit }, writer, clock }: KeyRepositoryParts) {
  const now = () => clock.wallMs()
  const target = { now, dialect, audit }
  return {
    commit: createCommit(writer, { ...target, auditQueue: createAuditQueue(writer, target) }),
    revokeKeys: (revocation: BulkRevocation) => revokeKeys(writer, revocation, target),
    importKeys: (keys: KeyImport) => importKeys(writer, keys, target),
    recordUse: (lastUsedMs: ReadonlyMap<string, number>) =>
      writer.run(tx => recordUse(tx, lastUsedMs, dialect)),
    /** Deletes responses past their retention. */
    async purge(): Promise<void> {
      while (await writer.run(tx => purgeResponses(tx, now()))) {}
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
    lastUses: (ids: readonly string[]) => usesById(ids),
    list: (page: PageOptions) => listKeys(reader, page),
    listForSync: (range: SyncRange) => listForSync(reader, range),
    countForSync: (expiresAfterMs: number) => countForSync(reader, expiresAfterMs, dialect),
    countByState: (bounds: ExpiryBounds) => countByState(reader, bounds, dialect),
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
    listWorkspaces: (query: WorkspaceQuery) => listWorkspaces(reader, query, context()),
    countInWorkspace: (workspaceId: string) => countInWorkspace(reader, workspaceId, context()),
    countLive: (workspaceId: string) => countLive(reader, workspaceId, now()),
    countUnused: (workspaceId: string) => countUnused(reader, workspaceId, now()),
  }
}

function createHistory({ database: { reader, audit } }: KeyRepositoryParts) {
  return {
    findOrigin: (record: KeyRecord) => findOrigin(reader, record, audit),
    listHistory: (key: Pick<KeyRecord, 'id' | 'workspaceId'>, span: HistorySpan) =>
      listHistory(reader, key, span, audit),
    listLeaks: (keyId: string) => listLeaks(reader, keyId, audit),
  }
}

/** On PostgreSQL a burst of reads would wait for the few connections. */
function chooseSharing({ dialect }: AuditedDatabase): typeof shareBatches {
  return dialect === 'postgres' ? shareBatches : read => read
}
