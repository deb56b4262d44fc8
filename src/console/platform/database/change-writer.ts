import type { Kysely, Transaction } from 'kysely'
import type { Database } from './database.ts'
import { findTrouble, mayRunAgain } from './database-unavailable.ts'
import type { Tables } from './tables.ts'

export type Work<Result> = (tx: Transaction<Tables>) => Promise<Result>
type RunWork = <Result>(work: Work<Result>) => Promise<Result>

/** Runs transactions. */
export interface ChangeWriter {
  readonly run: RunWork
  /** The same for announcing, which does not wait for changes. */
  readonly announce: RunWork
  /**
   * The same for work that has time. On SQLite, where transactions run one after another, the next one does it as well, so that a
   * burst of changes costs one disk sync per change, not two.
   */
  readonly announceWithNext: (work: Work<void>) => Promise<void>
}

export function createChangeWriter(database: Database): ChangeWriter {
  if (database.dialect === 'sqlite') return createSerialWriter(database)
  const announce = runAgainAfterFailover(database.announcing)
  return { run: runAgainAfterFailover(database.writer), announce, announceWithNext: announce }
}

function createSerialWriter({ writer }: Database): ChangeWriter {
  const waiting = new Set<Work<void>>()
  const run: RunWork = async work => {
    let done: Work<void>[] = []
    const result = await writer.transaction().execute(async tx => {
      done = [...waiting]
      for (const other of done) await other(tx)
      return work(tx)
    })
    // After the commit: if it fails, the next transaction does the work.
    for (const other of done) waiting.delete(other)
    return result
  }
  return {
    run,
    announce: run,
    async announceWithNext(work) {
      waiting.add(work)
      await run(async () => {}).finally(() => waiting.delete(work))
    },
  }
}

/**
 * Runs a transaction again, once, whose server went away before it committed: after a failover another one answers. Where the answer to a
 * commit was lost, a second run might change something twice.
 */
function runAgainAfterFailover(connections: Kysely<Tables>): RunWork {
  return async work => {
    // Explicit: under another server default, concurrent changes would fail instead of waiting.
    const run = () => connections.transaction().setIsolationLevel('read committed').execute(work)
    try {
      return await run()
    } catch (error) {
      if (!mayRunAgain(findTrouble(error))) throw error
      return run()
    }
  }
}
