import type {
  Change,
  CommitOutcome,
  GatewayReport,
  GatewayStatus,
  KeyRepository,
  StoredKey,
} from '../../../src/control/registry/database/key-repository.ts'
import type {
  PendingChanges,
  RegionRegister,
} from '../../../src/control/registry/database/pending-changes.ts'
import { DEFAULT_REGION } from '../../../src/domain/region.ts'
import type { Database } from './database.ts'
import { enqueueChanges, pendingChangesIn, registerRegions, type UnusedMethods } from './outboxes.ts'
import type { Process } from './process.ts'

/** What happens in the database, for those who check the laws. */
export interface DatabaseWatcher {
  committed(key: StoredKey): void
  reported(report: GatewayReport): void
}

/** Only what announcing, lookups and confirmations use: the rest would be no part of the guarantee. */
type UsedMethods =
  | 'commit'
  | 'findById'
  | 'findByDigest'
  | 'findByDigests'
  | 'findResponse'
  | Exclude<keyof PendingChanges, UnusedMethods>
  | keyof RegionRegister
  | 'recordGateway'
  | 'listGatewayStatuses'

/** The registry in memory, as one console sees it. */
export function createSimulatedRepository(
  database: Database,
  console: Process,
  watcher: DatabaseWatcher,
): KeyRepository {
  const wallMs = (): number => console.clock.wallMs()
  const call = <Result>(execute: () => Result): Promise<Result> => database.call(console, execute)
  const write = <Result>(execute: () => Result): Promise<Result> => database.call(console, execute, true)
  const find = (digest: string): StoredKey | null => database.keys.get(digest)?.key ?? null
  const used: Pick<KeyRepository, UsedMethods> = {
    commit(change) {
      const nowMs = wallMs()
      return write(() => commit(database, change, nowMs, watcher))
    },
    findById: id => call(() => find(database.digestById.get(id) ?? '')),
    findByDigest: digest => call(() => find(digest)),
    findByDigests: digests => call(() => new Map(foundAmong(digests, find))),
    findResponse: async () => null,
    ...pendingChangesIn(database, console, DEFAULT_REGION),
    // What is missing in it is not called either.
    pendingIn: region => pendingChangesIn(database, console, region) as PendingChanges,
    registerRegions: names => write(() => registerRegions(database, names)),
    forgetRegions: async () => [],
    recordGateway(report) {
      const nowMs = wallMs()
      return write(() => record(database, report, nowMs, watcher))
    },
    listGatewayStatuses: change => call(() => statusesOf(database, change)),
  }
  // What is missing here is not called in a simulation; a call of it fails at once.
  return used as KeyRepository
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
  for (const key of changed) {
    database.keys.set(key.digest, { key, changedAtMs: nowMs })
    database.digestById.set(key.record.id, key.digest)
    watcher.committed(key)
  }
  return { kind: 'committed', pending: enqueueChanges(database, changed, nowMs) }
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
