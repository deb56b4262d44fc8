import type { Kysely } from 'kysely'
import type { ChangeWriter, Database, RunWork, Work } from './database.ts'
import { findTrouble, mayRunAgain } from './database-unavailable.ts'
import type { Tables } from './tables.ts'

/** For PostgreSQL, which runs transactions concurrently. */
export function createConcurrentWriter({
  writer,
  announcing,
}: Pick<Database, 'writer' | 'announcing'>): ChangeWriter {
  const announce = runAgainAfterFailover(announcing)
  return { run: runAgainAfterFailover(writer), announce, announceWithNext: announce }
}

/** For SQLite. */
export function createSerialWriter(writer: Kysely<Tables>): ChangeWriter {
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
