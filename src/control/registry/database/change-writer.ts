import type { Transaction } from 'kysely'
import type { Database } from './database.ts'
import type { PendingChange } from './key-repository.ts'
import { deleteNotes, deleteNotesUnlocked } from './outbox-rows.ts'
import type { Tables } from './tables.ts'

export type Work<Result> = (tx: Transaction<Tables>) => Promise<Result>

/** Runs transactions, and deletes the notes of what was announced. */
export interface ChangeWriter {
  run<Result>(work: Work<Result>): Promise<Result>
  forget(changes: readonly PendingChange[]): Promise<void>
}

export function createChangeWriter(database: Database): ChangeWriter {
  return database.dialect === 'sqlite' ? new SerialChangeWriter(database) : new ParallelChangeWriter(database)
}

/**
 * For SQLite, where transactions run one after another: each deletes the notes of what was announced by then. A burst of
 * changes costs one sync of the disk per change and not two, and no note waits behind the whole burst.
 */
class SerialChangeWriter implements ChangeWriter {
  readonly #database: Database
  readonly #announced = new Set<PendingChange>()

  constructor(database: Database) {
    this.#database = database
  }

  async run<Result>(work: Work<Result>): Promise<Result> {
    let deleted: PendingChange[] = []
    const result = await this.#database.writer.transaction().execute(async tx => {
      deleted = [...this.#announced]
      await deleteNotes(tx, deleted)
      return work(tx)
    })
    // Not before the commit: where it fails, the next transaction deletes them.
    for (const change of deleted) this.#announced.delete(change)
    return result
  }

  async forget(changes: readonly PendingChange[]): Promise<void> {
    for (const change of changes) this.#announced.add(change)
    await this.run(async () => {})
  }
}

/**
 * For PostgreSQL, where transactions run side by side: notes are deleted apart from changes, one deletion at a time for
 * all that were announced meanwhile, so that a burst does not spend half of its connections on it.
 */
class ParallelChangeWriter implements ChangeWriter {
  readonly #database: Database
  #waiting: PendingChange[] = []
  #next: Promise<void> | null = null
  #last: Promise<void> = Promise.resolve()

  constructor(database: Database) {
    this.#database = database
  }

  run<Result>(work: Work<Result>): Promise<Result> {
    // Named, since a server can have another default under which two changes would fail and not wait.
    return this.#database.writer.transaction().setIsolationLevel('read committed').execute(work)
  }

  forget(changes: readonly PendingChange[]): Promise<void> {
    if (changes.length === 0) return Promise.resolve()
    this.#waiting.push(...changes)
    this.#next ??= this.#last.then(() => {
      const notes = this.#waiting
      this.#waiting = []
      this.#next = null
      const deletion = this.run(tx => deleteNotesUnlocked(tx, notes))
      this.#last = deletion.catch(() => {})
      return deletion
    })
    return this.#next
  }
}
