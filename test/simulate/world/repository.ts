import type {
  GatewayReport,
  GatewayRows,
  GatewayStatus,
} from '../../../src/console/announcing/gateway-rows.ts'
import type { PendingChange, PendingChanges } from '../../../src/console/announcing/outbox-rows.ts'
import type { RegionRows } from '../../../src/console/announcing/region-rows.ts'
import type {
  BulkChanged,
  BulkKeyChange,
  KeyImport,
  LivePosition,
  LiveRange,
} from '../../../src/console/keys/rows/bulk-rows.ts'
import type { Change, CommitOutcome } from '../../../src/console/keys/rows/commit.ts'
import type { KeyRecord, StoredKey } from '../../../src/domain/key/key-record.ts'
import type { KeyRepository } from '../../support/repository.ts'
import type { Database } from './database.ts'
import { enqueueChanges, pendingChangesIn, registerRegions } from './outboxes.ts'
import type { Process } from './process.ts'

/** The fields of a stored key that decide. */
export interface CommittedKey {
  readonly digest: string
  readonly record: Pick<
    StoredKey['record'],
    'version' | 'workspaceId' | 'scopes' | 'allowedCidrs' | 'expiresAtMs' | 'revokedAtMs' | 'suspendedAtMs'
  >
}

/** What happens in the database, for those who check the laws. */
export interface DatabaseWatcher {
  committed(key: CommittedKey): void
  reported(report: { readonly id: string; readonly confirmed: GatewayReport['confirmed'] }): void
  /** A console holds changes that no other may claim now. */
  claimed(console: Process): void
}

/** Only what announcing, lookups and confirmations use: the rest would be no part of the guarantee. */
export type UsedMethods =
  | 'commit'
  | 'changeKeys'
  | 'importKeys'
  | 'newestKeyId'
  | 'listLive'
  | 'listSuccessors'
  | 'findById'
  | 'findByDigests'
  | 'findResponse'
  | 'findPlan'
  | 'findPlans'
  | 'pendingIn'
  | 'registerRegions'
  | 'forgetRegions'
  | 'recordGateway'
  | 'listGatewayStatuses'

/** What a console of a simulation reads and writes. */
export type Repository = KeyRepository & RegionRows & GatewayRows

/**
 * The registry in memory, as one console sees it.
 * @param consoleId distinguishes its claims
 */
export function createSimulatedRepository(
  database: Database,
  console: Process,
  consoleId: string,
  watcher: DatabaseWatcher,
): Repository {
  const wallMs = (): number => console.clock.wallMs()
  const call = <Result>(execute: () => Result): Promise<Result> => database.call(console, execute)
  const write = <Result>(execute: () => Result): Promise<Result> => database.call(console, execute, true)
  const find = (digest: string): StoredKey | null => database.find(digest)
  const used: Pick<Repository, UsedMethods> = {
    commit(change) {
      const nowMs = wallMs()
      return write(() => commit(database, change, nowMs, watcher))
    },
    changeKeys(change) {
      const nowMs = wallMs()
      return write(() => changeMany(database, change, nowMs, watcher))
    },
    importKeys(keys) {
      const nowMs = wallMs()
      return write(() => importMany(database, keys, nowMs, watcher))
    },
    newestKeyId: workspaceId => call(() => newestOf(database, workspaceId)),
    listLive(range) {
      const nowMs = wallMs()
      return call(() => liveIn(database, range, nowMs))
    },
    listSuccessors(range) {
      const nowMs = wallMs()
      return call(() => successorsIn(database, range, nowMs))
    },
    findById: id => call(() => find(database.digestById.get(id) ?? '')),
    findByDigests: digests => call(() => new Map(foundAmong(digests, find))),
    findResponse: async () => null,
    findPlan: async () => null,
    findPlans: async ids => new Map(ids.map(id => [id, null])),
    // What is missing in it is not called either.
    pendingIn: region =>
      pendingChangesIn(database, { console, consoleId, watcher }, region) as PendingChanges,
    registerRegions: names => write(() => registerRegions(database, names)),
    forgetRegions: async () => [],
    recordGateway(report) {
      const nowMs = wallMs()
      return write(() => record(database, report, nowMs, watcher))
    },
    listGatewayStatuses: change => call(() => statusesOf(database, change)),
  }
  // What is missing here is not called in a simulation; a call of it fails at once.
  return used as Repository
}

function foundAmong(
  digests: readonly string[],
  find: (digest: string) => StoredKey | null,
): [string, StoredKey][] {
  return digests.flatMap(digest => {
    const key = find(digest)
    return key === null ? [] : [[digest, key] satisfies [string, StoredKey]]
  })
}

function commit(
  database: Database,
  { issued, replaced }: Change,
  nowMs: number,
  watcher: DatabaseWatcher,
): CommitOutcome {
  // The index that the database has: two overlapping operations may issue one key.
  if (issued !== null && database.keys.has(issued.digest)) throw new Error('The digest is not unique')
  if (replaced !== null) {
    const held = database.keys.get(replaced.digest)?.key.record.version
    if (held !== replaced.record.version - 1) return { kind: 'stale' }
  }
  const changed = [issued, replaced].filter(key => key !== null)
  return { kind: 'committed', pending: storeAll(database, changed, nowMs, watcher) }
}

function storeAll(
  database: Database,
  keys: readonly StoredKey[],
  nowMs: number,
  watcher: DatabaseWatcher,
): PendingChange[] {
  for (const key of keys) {
    database.store(key, nowMs)
    watcher.committed(key)
  }
  return enqueueChanges(database, keys, nowMs)
}

/** As `bulk-rows.ts` does. */
function changeMany(
  database: Database,
  { ids, plan }: BulkKeyChange,
  nowMs: number,
  watcher: DatabaseWatcher,
): BulkChanged {
  const found = ids.toSorted().map(id => database.find(database.digestById.get(id) ?? ''))
  const keys = found.flatMap(key => {
    if (key === null) return []
    const record = plan(key.record, nowMs)
    return record === key.record ? [] : [{ digest: key.digest, record }]
  })
  return { keys, pending: storeAll(database, keys, nowMs, watcher) }
}

function importMany(
  database: Database,
  { keys }: KeyImport,
  nowMs: number,
  watcher: DatabaseWatcher,
): BulkChanged {
  const imported = keys.filter(({ digest }) => database.find(digest) === null)
  return { keys: imported, pending: storeAll(database, imported, nowMs, watcher) }
}

const recordsOf = ({ keys }: Database, workspaceId: string): KeyRecord[] =>
  [...keys.values()].map(({ key }) => key.record).filter(record => record.workspaceId === workspaceId)

function newestOf(database: Database, workspaceId: string): string | null {
  const ids = recordsOf(database, workspaceId).map(({ id }) => id)
  return ids.sort().at(-1) ?? null
}

/** As on PostgreSQL. */
const LIVE_AT_ONCE = 250

function liveIn(
  database: Database,
  { workspaceId, after, untilId }: LiveRange,
  nowMs: number,
): LivePosition[] {
  const start = after ?? { expiresAtMs: nowMs + 1, id: '' }
  const isAfter = ({ expiresAtMs, id }: LivePosition): boolean =>
    expiresAtMs > start.expiresAtMs || (expiresAtMs === start.expiresAtMs && id > start.id)
  return recordsOf(database, workspaceId)
    .filter(record => record.revokedAtMs === null && record.expiresAtMs > nowMs && record.id <= untilId)
    .filter(isAfter)
    .sort((a, b) => a.expiresAtMs - b.expiresAtMs || (a.id < b.id ? -1 : 1))
    .slice(0, LIVE_AT_ONCE)
}

function successorsIn(
  database: Database,
  { workspaceId, untilId }: Omit<LiveRange, 'after'>,
  nowMs: number,
): string[] {
  const later = recordsOf(database, workspaceId)
    .filter(({ id }) => id > untilId)
    .sort((a, b) => (a.id < b.id ? -1 : 1))
  const successors = new Set<string>()
  for (const { id, rotatedFrom } of later) {
    if (rotatedFrom !== null && (rotatedFrom <= untilId || successors.has(rotatedFrom))) successors.add(id)
  }
  return later
    .filter(
      ({ id, revokedAtMs, expiresAtMs }) => successors.has(id) && revokedAtMs === null && expiresAtMs > nowMs,
    )
    .slice(0, LIVE_AT_ONCE)
    .map(({ id }) => id)
}

function record(database: Database, report: GatewayReport, nowMs: number, watcher: DatabaseWatcher): void {
  const { id, name, region, isConnected, isLeaving, confirmed } = report
  if (isLeaving) {
    database.gateways.delete(id)
    return
  }
  const before = database.gateways.get(id)
  const disconnectedAtMs = before === undefined || !isConnected ? nowMs : before.disconnectedAtMs
  const versions = before?.confirmed ?? new Map<string, number>()
  for (const { digest, version } of confirmed) {
    versions.set(digest, Math.max(version, versions.get(digest) ?? 0))
  }
  database.gateways.set(id, { name, region, seenAtMs: nowMs, disconnectedAtMs, confirmed: versions })
  watcher.reported(report)
}

function statusesOf(database: Database, change: { digest: string; version: number }): GatewayStatus[] {
  return [...database.gateways.values()].map(({ confirmed, ...gateway }) => ({
    ...gateway,
    confirmed: (confirmed.get(change.digest) ?? 0) >= change.version,
  }))
}
