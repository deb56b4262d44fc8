import type { Kysely, Transaction } from 'kysely'
import type { Database } from './database.ts'
import { findTrouble, mayRunAgain } from './database-unavailable.ts'
import type { Tables } from './tables.ts'

export type Work<Result> = (tx: Transaction<Tables>) => Promise<Result>

/** Runs transactions. */
export interface ChangeWriter {
  run<Result>(work: Work<Result>): Promise<Result>
  /** The same for announcing, which does not wait for changes. */
  announce<Result>(work: Work<Result>): Promise<Result>
  /**
   * The same for work that has time. On SQLite, where transactions run one after another, the next one does it as well, so that a
   * burst of changes costs one disk sync per change, not two.
   */
  announceWithNext(work: Work<void>): Promise<void>
}

export function createChangeWriter(database: Database): ChangeWriter {
  return database.dialect === 'sqlite' ? new SerialChangeWriter(database) : new ParallelChangeWriter(database)
}

class SerialChangeWriter implements ChangeWriter {
  readonly #database: Database
  readonly #waiting = new Set<Work<void>>()

  constructor(database: Database) {
    this.#database = database
  }

  async run<Result>(work: Work<Result>): Promise<Result> {
    let done: Work<void>[] = []
    const result = await this.#database.writer.transaction().execute(async tx => {
      done = [...this.#waiting]
      for (const other of done) await other(tx)
      return work(tx)
    })
    // After the commit: if it fails, the next transaction does the work.
    for (const other of done) this.#waiting.delete(other)
    return result
  }

  announce<Result>(work: Work<Result>): Promise<Result> {
    return this.run(work)
  }

  async announceWithNext(work: Work<void>): Promise<void> {
    this.#waiting.add(work)
    await this.run(async () => {}).finally(() => this.#waiting.delete(work))
  }
}

/** For PostgreSQL, where transactions run concurrently. */
class ParallelChangeWriter implements ChangeWriter {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  run<Result>(work: Work<Result>): Promise<Result> {
    return transact(this.#database.writer, work)
  }

  announce<Result>(work: Work<Result>): Promise<Result> {
    return transact(this.#database.announcing, work)
  }

  announceWithNext(work: Work<void>): Promise<void> {
    return this.announce(work)
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
    if (!mayRunAgain(findTrouble(error))) throw error
    return run()
  }
}
