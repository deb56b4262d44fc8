import type { Kysely, Transaction } from 'kysely'
import type { PendingChange } from './key-repository.ts'
import type { Tables } from './tables.ts'

/**
 * Runs transactions, one after another, and lets each of them delete the notes of what was announced by then: a burst of
 * changes costs one sync of the disk per change and not two, and no note waits behind the whole burst.
 */
export class ChangeWriter {
  readonly #database: Kysely<Tables>
  readonly #announced = new Set<PendingChange>()

  constructor(database: Kysely<Tables>) {
    this.#database = database
  }

  async run<Result>(work: (tx: Transaction<Tables>) => Promise<Result>): Promise<Result> {
    let deleted: PendingChange[] = []
    const result = await this.#database.transaction().execute(async tx => {
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

async function deleteNotes(tx: Transaction<Tables>, changes: readonly PendingChange[]): Promise<void> {
  for (const { digest, version } of changes) {
    await tx.deleteFrom('outbox').where('digest', '=', digest).where('version', '=', version).execute()
  }
}
