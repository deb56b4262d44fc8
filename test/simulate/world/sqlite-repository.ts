import type { PendingChanges } from '../../../src/console/announcing/outbox-rows.ts'
import type { Clock } from '../../../src/domain/clock.ts'
import type { StoredKey } from '../../../src/domain/key/key-record.ts'
import { openDatabase } from '../../support/open-database.ts'
import { createRepository } from '../../support/repository.ts'
import type { Database } from './database.ts'
import type { UnusedMethods } from './outboxes.ts'
import type { Process } from './process.ts'
import type { DatabaseWatcher, Repository, UsedMethods } from './repository.ts'

/** The program's database and its statements; the way there is simulated. */
export const openSqlite = () => openDatabase('sqlite::memory:')
type Sqlite = Awaited<ReturnType<typeof openSqlite>>

const START: Clock = { wallMs: () => 0, monotonicMs: () => 0 }

/** With keys that exist from the start, and regions that have nothing to catch up with. */
export async function fillSqlite(
  sqlite: Sqlite,
  keys: readonly StoredKey[],
  regions: readonly string[],
): Promise<void> {
  const repository = createRepository(sqlite, START, 'start')
  for (const issued of keys)
    await repository.commit({ issued, replaced: null, audit: [], response: null, events: [] })
  await repository.registerRegions(regions)
  for (const region of regions) while (await repository.pendingIn(region).requeueNextKeys()) {}
}

/** How many changes wait for each region. */
export async function countWaiting(
  sqlite: Sqlite,
  regions: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const repository = createRepository(sqlite, START, 'start')
  const counts = regions.map(async name => [name, await repository.pendingIn(name).countPending()] as const)
  return new Map(await Promise.all(counts))
}

/** As one console sees it. */
export function createSqliteRepository(
  { sqlite, database }: { readonly sqlite: Sqlite; readonly database: Database },
  console: Process,
  consoleId: string,
  watcher: DatabaseWatcher,
): Repository {
  const real = createRepository(sqlite, console.clock, consoleId)
  const call = <Args extends readonly unknown[], Result>(run: (...args: Args) => Promise<Result>) => {
    return (...args: Args): Promise<Result> => database.call(console, () => run(...args))
  }
  const write = <Args extends readonly unknown[], Result>(run: (...args: Args) => Promise<Result>) => {
    return (...args: Args): Promise<Result> => database.call(console, () => run(...args), true)
  }
  const committed = (keys: readonly (StoredKey | null)[]): void => {
    for (const key of keys) {
      if (key === null) continue
      database.store(key, console.clock.wallMs())
      watcher.committed(key)
    }
  }
  const used: Pick<Repository, UsedMethods> = {
    commit: write(async change => {
      const outcome = await real.commit(change)
      if (outcome.kind === 'committed') committed([change.issued, change.replaced])
      return outcome
    }),
    changeKeys: write(async change => {
      const changed = await real.changeKeys(change)
      committed(changed.keys)
      return changed
    }),
    importKeys: write(async keys => {
      const imported = await real.importKeys(keys)
      committed(imported.keys)
      return imported
    }),
    newestKeyId: call(real.newestKeyId),
    listLive: call(real.listLive),
    listSuccessors: call(real.listSuccessors),
    findById: call(real.findById),
    findByDigests: call(real.findByDigests),
    findResponse: async () => null,
    findPlan: async () => null,
    findPlans: async ids => new Map(ids.map(id => [id, null])),
    // What is missing in it is not called either.
    pendingIn: region => changesIn(real.pendingIn(region)) as PendingChanges,
    registerRegions: write(real.registerRegions),
    forgetRegions: async () => [],
    recordGateway: write(async report => {
      await real.recordGateway(report)
      if (!report.isLeaving) watcher.reported(report)
    }),
    listGatewayStatuses: call(real.listGatewayStatuses),
  }
  // What is missing here is not called in a simulation; a call of it fails at once.
  return used as Repository

  function changesIn(pending: PendingChanges): Omit<PendingChanges, UnusedMethods> {
    return {
      claimChanges: write(async limit => {
        const changes = await pending.claimChanges(limit)
        if (changes.length > 0) watcher.claimed(console)
        return changes
      }),
      findPendingChanges: call(pending.findPendingChanges),
      pendingSpan: call(pending.pendingSpan),
      hasPendingUntil: call(pending.hasPendingUntil),
      deletePendingChanges: async (changes, mark) => {
        if (changes.length > 0) await write(pending.deletePendingChanges)(changes, mark)
      },
      readMark: call(pending.readMark),
      claimMark: write(pending.claimMark),
      renewMark: write(pending.renewMark),
      keepMark: write(pending.keepMark),
      requeueChangesSince: write(pending.requeueChangesSince),
      requeueNextKeys: write(pending.requeueNextKeys),
    }
  }
}
