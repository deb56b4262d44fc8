import type { Kysely, Transaction } from 'kysely'
import {
  type AnnouncedChange,
  deletePendingChanges,
  deletePendingChangesUnlocked,
} from '../../announcing/rows/outbox-rows.ts'
import type { PendingChange } from '../../announcing/rows/pending-changes.ts'
import { shareBatches } from '../batch/share-runs.ts'
import type { Database } from './database.ts'
import { troubleOf } from './database-unavailable.ts'
import { mayRunAgain } from './postgres-errors.ts'
import type { Tables } from './tables.ts'

/** Bounds the time of one statement. */
const DELETED_AT_ONCE = 5_000

export type Work<Result> = (tx: Transaction<Tables>) => Promise<Result>

/** Runs transactions, and deletes announced changes from the outbox. */
export interface ChangeWriter {
  run<Result>(work: Work<Result>): Promise<Result>
  /** The same for announcing, which does not wait for changes. */
  announce<Result>(work: Work<Result>): Promise<Result>
  deleteAnnounced(region: string, changes: readonly PendingChange[]): Promise<void>
}

export function createChangeWriter(database: Database): ChangeWriter {
  return database.dialect === 'sqlite' ? new SerialChangeWriter(database) : new ParallelChangeWriter(database)
}

/**
 * For SQLite, where transactions run one after another: each also deletes the changes announced by then, so that a burst
 * costs one disk sync per change, not two.
 */
class SerialChangeWriter implements ChangeWriter {
  readonly #database: Database
  readonly #announced = new Map<PendingChange, string>()

  constructor(database: Database) {
    this.#database = database
  }

  async run<Result>(work: Work<Result>): Promise<Result> {
    let deleted: [PendingChange, string][] = []
    const result = await this.#database.writer.transaction().execute(async tx => {
      deleted = [...this.#announced]
      for (const [change, region] of deleted) await deletePendingChanges(tx, region, [change])
      return work(tx)
    })
    // After the commit: if it fails, the next transaction deletes them.
    for (const [change] of deleted) this.#announced.delete(change)
    return result
  }

  announce<Result>(work: Work<Result>): Promise<Result> {
    return this.run(work)
  }

  async deleteAnnounced(region: string, changes: readonly PendingChange[]): Promise<void> {
    // Copies: regions share the changes of one request.
    for (const change of changes) this.#announced.set({ ...change }, region)
    await this.run(async () => {})
  }
}

/**
 * For PostgreSQL, where transactions run concurrently: one deletion at a time removes all changes announced meanwhile, to any
 * region, so that a burst does not spend most of its connections on deletions.
 */
class ParallelChangeWriter implements ChangeWriter {
  readonly #database: Database
  readonly #deleteTogether = shareBatches((announced: readonly AnnouncedChange[]) => this.#delete(announced))

  constructor(database: Database) {
    this.#database = database
  }

  async #delete(announced: readonly AnnouncedChange[]): Promise<void> {
    for (let from = 0; from < announced.length; from += DELETED_AT_ONCE) {
      const some = announced.slice(from, from + DELETED_AT_ONCE)
      await this.announce(tx => deletePendingChangesUnlocked(tx, some))
    }
  }

  run<Result>(work: Work<Result>): Promise<Result> {
    return transact(this.#database.writer, work)
  }

  announce<Result>(work: Work<Result>): Promise<Result> {
    return transact(this.#database.announcing, work)
  }

  deleteAnnounced(region: string, changes: readonly PendingChange[]): Promise<void> {
    if (changes.length === 0) return Promise.resolve()
    return this.#deleteTogether(changes.map(change => ({ ...change, region })))
  }
}

/**
 * Runs a transaction again, once, whose server went away before it committed: after a failover another one answers. Where the answer to a
 * commit was lost, a second run might change something twice.
 */
async function transact<Result>(connections: Kysely<Tables>, work: Work<Result>): Promise<Result> {
  // Explicit: under another server default, concurrent changes would fail instead of waiting.
  const run = () => connections.transaction().setIsolationLevel('read committed').execute(work)
  try {
    return await run()
  } catch (error) {
    if (!mayRunAgain(troubleOf(error))) throw error
    return run()
  }
}
