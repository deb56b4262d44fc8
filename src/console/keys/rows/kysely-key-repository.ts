import type { Clock } from '../../../domain/clock.ts'
import { DEFAULT_REGION } from '../../../domain/region.ts'
import { shareReports } from '../../announcing/rows/gateway-reports.ts'
import {
  countGateways,
  type KeyVersion,
  purgeConfirmations,
  readGatewayStatuses,
  recordGateways,
} from '../../announcing/rows/gateway-rows.ts'
import * as outbox from '../../announcing/rows/outbox-rows.ts'
import type { PendingChanges } from '../../announcing/rows/pending-changes.ts'
import {
  forgetRegions,
  purgeForgotten,
  registerRegions,
  requeueNextKeys,
} from '../../announcing/rows/region-rows.ts'
import { isInChain, readHead, signAgain } from '../../platform/audit/chain.ts'
import { createAuditQueue } from '../../platform/audit/queue.ts'
import { shareBatches } from '../../platform/batch/share-runs.ts'
import { type ChangeWriter, createChangeWriter } from '../../platform/database/change-writer.ts'
import type { Database } from '../../platform/database/database.ts'
import { countInWorkspace, countLive } from '../search/count-in-workspace.ts'
import { countKeys } from '../search/count-keys.ts'
import { countUnused } from '../search/count-unused.ts'
import { listWorkspaces } from '../search/list-workspaces.ts'
import { SEARCH_BOUNDS, type SearchBounds } from '../search/ordered-keys.ts'
import { searchKeys } from '../search/search-keys.ts'
import { type CommitContext, commitChange } from './commit-change.ts'
import { createCommitTogether, isReplacement } from './commit-together.ts'
import { importKeys } from './import-rows.ts'
import { findOrigin, listHistory, listLeaks } from './key-history.ts'
import type { KeyRepository } from './key-repository.ts'
import { countByState, countForSync, findKey, findKeys, listForSync, listKeys } from './key-rows.ts'
import { lastUses, recordUse } from './key-use-rows.ts'
import { findResponse, probeWrite, purgeResponses } from './response-rows.ts'
import { listLive, newestKeyId, revokeKeys } from './revoke-rows.ts'

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
  const { reader, dialect, hasTextIndex, audit, close } = database
  const writer = createChangeWriter(database)
  const now = () => clock.wallMs()
  const target = { now, dialect, audit }
  const auditQueue = createAuditQueue(writer, target)
  const { keysById, usesById, gatewayStatuses } = sharedReads(database)
  const pendingIn = (region: string) => pendingChangesIn(region, { database, writer, consoleId, now })
  const context = () => ({ nowMs: now(), dialect, hasTextIndex, bounds })
  return {
    commit: createCommit(writer, { ...target, auditQueue }),
    revokeKeys: revocation => revokeKeys(writer, revocation, target),
    importKeys: keys => importKeys(writer, keys, target),
    newestKeyId: workspaceId => newestKeyId(reader, workspaceId),
    listLive: range => listLive(reader, range, now()),
    findById: async id => (await keysById([id])).get(id) ?? null,
    findByDigest: digest => findKey(reader, 'digest', digest),
    findByDigests: digests => findKeys(reader, 'digest', digests),
    findByIds: ids => findKeys(reader, 'id', ids),
    list: page => listKeys(reader, page),
    search: query => searchKeys(reader, query, context()),
    count: selector => countKeys(reader, selector, { ...context(), clock }),
    listWorkspaces: query => listWorkspaces(reader, query, context()),
    countInWorkspace: workspaceId => countInWorkspace(reader, workspaceId, now()),
    countLive: workspaceId => countLive(reader, workspaceId, now()),
    countUnused: workspaceId => countUnused(reader, workspaceId, now()),
    ...readsOfAudit(database),
    chainAudit: () => auditQueue.chainLeft(),
    signAuditAgain: () => signAgain(writer, target),
    probeWrite: () => writer.announce(tx => probeWrite(tx, consoleId, now())),
    findResponse: idempotency => findResponse(reader, idempotency, now()),
    listForSync: page => listForSync(reader, page),
    countForSync: expiresAfterMs => countForSync(reader, expiresAfterMs, dialect),
    recordUse: lastUsedMs => writer.run(tx => recordUse(tx, lastUsedMs, dialect)),
    lastUses: usesById,
    recordGateway: shareReports(reports => writer.run(tx => recordGateways(tx, reports, dialect)), now),
    countGateways: sinceMs => countGateways(reader, sinceMs),
    listGatewayStatuses: async change => (await gatewayStatuses([change]))(change),
    ...pendingIn(DEFAULT_REGION),
    pendingIn,
    registerRegions: names => writer.run(tx => registerRegions(tx, names, { nowMs: now(), dialect })),
    forgetRegions: () => writer.run(tx => forgetRegions(tx, now())),
    async purge() {
      while (await writer.run(tx => purgeResponses(tx, now()))) {}
      while (await writer.run(tx => purgeConfirmations(tx, now()))) {}
      while (await writer.run(tx => purgeForgotten(tx, dialect))) {}
    },
    countByState: census => countByState(reader, census, dialect),
    close,
  }
}

function readsOfAudit({ reader, audit }: Database) {
  return {
    auditHead: () => readHead(reader),
    isInAudit: head => isInChain(reader, head, audit),
    findOrigin: record => findOrigin(reader, record, audit),
    listHistory: (key, span) => listHistory(reader, key, span, audit),
    listLeaks: keyId => listLeaks(reader, keyId, audit),
  } satisfies Partial<KeyRepository>
}

function createCommit(writer: ChangeWriter, context: CommitContext): KeyRepository['commit'] {
  const together = createCommitTogether(writer, context)
  return change =>
    context.dialect === 'postgres' && isReplacement(change)
      ? together(change)
      : commitChange(writer, change, context)
}

/** What each change reads: on PostgreSQL a burst would wait for the few connections. */
function sharedReads({ reader, dialect }: Database) {
  const share: typeof shareBatches = dialect === 'postgres' ? shareBatches : read => read
  return {
    keysById: share((ids: readonly string[]) => findKeys(reader, 'id', ids)),
    usesById: share((ids: readonly string[]) => lastUses(reader, ids)),
    gatewayStatuses: share((versions: readonly KeyVersion[]) =>
      readGatewayStatuses(reader, versions, dialect),
    ),
  }
}

function pendingChangesIn(
  region: string,
  parts: { database: Database; writer: ChangeWriter; consoleId: string; now: () => number },
): PendingChanges {
  const { writer, consoleId, now } = parts
  const { reader, announcing, dialect } = parts.database
  return {
    claimChanges: limit =>
      writer.announce(tx => outbox.claimChanges(tx, region, { consoleId, nowMs: now(), limit, dialect })),
    pendingChangesOf: digest => outbox.pendingChangesOf(reader, region, digest),
    pendingSpan: () => outbox.pendingSpan(announcing, region),
    hasPendingUntil: (workspaceId, atMs) =>
      outbox.hasPendingUntil(reader, region, { workspaceId, atMs, dialect }),
    countPending: () => outbox.countPending(reader, region),
    oldestPendingMs: () => outbox.oldestPendingMs(reader, region),
    deletePendingChanges: announced => writer.deleteAnnounced(region, announced),
    requeueChangesSince: sinceMs =>
      writer.run(tx => outbox.requeueChangesSince(tx, region, { sinceMs, nowMs: now(), dialect })),
    requeueNextKeys: () => writer.run(tx => requeueNextKeys(tx, region, now())),
  }
}
