import type { Clock } from '../../../domain/clock.ts'
import { countInWorkspace, countLive } from '../search/count-in-workspace.ts'
import { countKeys } from '../search/count-keys.ts'
import { countUnused } from '../search/count-unused.ts'
import { listWorkspaces } from '../search/list-workspaces.ts'
import { SEARCH_BOUNDS, type SearchBounds } from '../search/ordered-keys.ts'
import { searchKeys } from '../search/search-keys.ts'
import { createAuditQueue } from './audit/audit-queue.ts'
import { exportAudit, listAudit, searchAudit } from './audit/audit-rows.ts'
import { createChangeWriter } from './change-writer.ts'
import { commitChange } from './commit-change.ts'
import type { Database } from './database.ts'
import type { KeyRepository } from './key-repository.ts'
import { countGateways, listGatewayStatuses, purgeConfirmations, recordGateway } from './rows/gateway-rows.ts'
import { importKeys } from './rows/import-rows.ts'
import { findOrigin, listHistory, listLeaks } from './rows/key-history.ts'
import { countByState, countForSync, findKey, findKeys, listForSync, listKeys } from './rows/key-rows.ts'
import { lastUses, recordUse } from './rows/key-use-rows.ts'
import {
  claimChanges,
  countPending,
  hasPendingUntil,
  pendingChangesOf,
  pendingSpan,
  requeueChangesSince,
} from './rows/outbox-rows.ts'
import { findResponse, purgeResponses } from './rows/response-rows.ts'
import { listLiveIds, newestKeyId, revokeKeys } from './rows/revoke-rows.ts'

/**
 * @param clock the time of commits
 * @param consoleId distinguishes this console's outbox claims
 */
export function createKeyRepository(
  database: Database,
  clock: Clock,
  consoleId: string,
  bounds: SearchBounds = SEARCH_BOUNDS,
): KeyRepository {
  const { reader, dialect, hasTextIndex, close } = database
  const writer = createChangeWriter(database)
  const auditQueue = createAuditQueue(writer, dialect)
  const now = () => clock.wallMs()
  const context = () => ({ nowMs: now(), dialect, hasTextIndex, bounds })
  return {
    commit: change => commitChange(writer, change, { now, dialect, auditQueue }),
    revokeKeys: revocation => revokeKeys(writer, revocation, { now, dialect }),
    importKeys: keys => importKeys(writer, keys, { now, dialect }),
    newestKeyId: workspaceId => newestKeyId(reader, workspaceId),
    listLiveIds: range => listLiveIds(reader, range, now()),
    findById: id => findKey(reader, 'id', id),
    findByDigest: digest => findKey(reader, 'digest', digest),
    findByDigests: digests => findKeys(reader, 'digest', digests),
    findByIds: ids => findKeys(reader, 'id', ids),
    findOrigin: record => findOrigin(reader, record),
    listHistory: (key, span) => listHistory(reader, key, span),
    listLeaks: keyId => listLeaks(reader, keyId),
    list: page => listKeys(reader, page),
    search: query => searchKeys(reader, query, context()),
    count: selector => countKeys(reader, selector, { ...context(), clock }),
    listWorkspaces: query => listWorkspaces(reader, query, context()),
    countInWorkspace: workspaceId => countInWorkspace(reader, workspaceId, now()),
    countLive: workspaceId => countLive(reader, workspaceId, now()),
    countUnused: workspaceId => countUnused(reader, workspaceId, now()),
    listAudit: page => listAudit(reader, page, dialect),
    searchAudit: query => searchAudit(reader, query, dialect),
    chainAudit: () => auditQueue.chain(),
    exportAudit: (position, limit) => exportAudit(reader, position, limit),
    findResponse: idempotency => findResponse(reader, idempotency, now()),
    listForSync: page => listForSync(reader, page),
    countForSync: expiresAfterMs => countForSync(reader, expiresAfterMs),
    recordUse: lastUsedMs => writer.run(tx => recordUse(tx, lastUsedMs, dialect)),
    lastUses: ids => lastUses(reader, ids),
    recordGateway: report => writer.run(tx => recordGateway(tx, report, { nowMs: now(), dialect })),
    countGateways: sinceMs => countGateways(reader, sinceMs),
    listGatewayStatuses: change => listGatewayStatuses(reader, change),
    claimChanges: limit => writer.run(tx => claimChanges(tx, { consoleId, nowMs: now(), limit, dialect })),
    pendingChangesOf: digest => pendingChangesOf(reader, digest),
    pendingSpan: () => pendingSpan(reader),
    hasPendingUntil: (workspaceId, atMs) => hasPendingUntil(reader, workspaceId, atMs),
    countPending: () => countPending(reader),
    deletePendingChanges: announced => writer.deleteAnnounced(announced),
    requeueChangesSince: sinceMs => writer.run(tx => requeueChangesSince(tx, { sinceMs, nowMs: now() })),
    async purge() {
      while (await writer.run(tx => purgeResponses(tx, now()))) {}
      while (await writer.run(tx => purgeConfirmations(tx, now()))) {}
    },
    countByState: census => countByState(reader, census),
    close,
  }
}
