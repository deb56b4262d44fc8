import type {
  Change,
  CommitOutcome,
  GatewayReport,
  GatewayStatus,
  KeyRepository,
  PendingChange,
  StoredKey,
} from '../../../src/control/registry/database/key-repository.ts'
import type { Database, OutboxRow } from './database.ts'
import type { Process } from './process.ts'

/** As in `outbox-rows.ts`. */
const CLAIM_MS = 2_000

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
  | 'claimChanges'
  | 'pendingChangesOf'
  | 'pendingSpan'
  | 'deletePendingChanges'
  | 'requeueChangesSince'
  | 'requeueNextKeys'
  | 'recordGateway'
  | 'listGatewayStatuses'

const rowKeyOf = ({ digest, version }: { digest: string; version: number }): string => `${digest} ${version}`

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
    claimChanges(limit) {
      const nowMs = wallMs()
      return write(() => claim(database, console.name, nowMs, limit))
    },
    pendingChangesOf: digest => call(() => pending(database).filter(change => change.digest === digest)),
    pendingSpan: () => call(() => spanOf(database)),
    deletePendingChanges: changes =>
      changes.length === 0
        ? Promise.resolve()
        : write(() => {
            for (const change of changes) database.outbox.delete(rowKeyOf(change))
          }),
    requeueChangesSince(sinceMs) {
      const nowMs = wallMs()
      return write(() => requeue(database, sinceMs, nowMs))
    },
    requeueNextKeys: () => call(() => false),
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
  const changes = changed.map(({ digest, record }) => ({ digest, version: record.version, atMs: nowMs }))
  for (const key of changed) {
    database.keys.set(key.digest, { key, changedAtMs: nowMs })
    database.digestById.set(key.record.id, key.digest)
    watcher.committed(key)
  }
  for (const change of changes) enqueue(database, change)
  return { kind: 'committed', pending: changes }
}

function enqueue(database: Database, change: PendingChange): void {
  const row: OutboxRow = { ...change, claimedBy: '', claimedUntilMs: 0 }
  if (!database.outbox.has(rowKeyOf(row))) database.outbox.set(rowKeyOf(row), row)
}

function pending(database: Database): OutboxRow[] {
  return [...database.outbox.values()].sort((a, b) => a.atMs - b.atMs || a.version - b.version)
}

function claim(database: Database, by: string, nowMs: number, limit: number): PendingChange[] {
  const free = pending(database).filter(
    ({ claimedBy, claimedUntilMs }) =>
      claimedBy === by || claimedUntilMs <= nowMs || claimedUntilMs > nowMs + 2 * CLAIM_MS,
  )
  return free.slice(0, limit).map(({ digest, version, atMs }) => {
    const row = { digest, version, atMs, claimedBy: by, claimedUntilMs: nowMs + CLAIM_MS }
    database.outbox.set(rowKeyOf(row), row)
    return { digest, version, atMs }
  })
}

function spanOf(database: Database): { oldestMs: number; newestMs: number } | null {
  if (database.outbox.size === 0) return null
  const times = [...database.outbox.values()].map(({ atMs }) => atMs)
  return { oldestMs: Math.min(...times), newestMs: Math.max(...times) }
}

function requeue(database: Database, sinceMs: number, nowMs: number): void {
  for (const { key, changedAtMs } of database.keys.values()) {
    const { digest, record } = key
    if (record.version > 1 && changedAtMs >= sinceMs) {
      enqueue(database, { digest, version: record.version, atMs: nowMs })
    }
  }
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
