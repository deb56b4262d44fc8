import type { Transaction } from 'kysely'
import type { AuditEntry } from '../../operations/audit.ts'
import type { ChangeWriter } from '../change-writer.ts'
import type { Dialect } from '../database.ts'
import { shareRuns } from '../share-runs.ts'
import type { Tables } from '../tables.ts'
import { AuditWriteError, appendAfter, appendAudit, auditRowOf, lockHead } from './audit-chain.ts'

/** Entries of one transaction, during which other consoles cannot append. */
const CHAINED_AT_ONCE = 500

/** The audit entries of single changes, which come in bursts. */
export interface AuditQueue {
  /** Writes the entries of a change in its transaction; call it last. @throws AuditWriteError */
  add(tx: Transaction<Tables>, entries: readonly AuditEntry[]): Promise<void>
  /** Resolves once every entry that was committed before the call is in the chain. */
  chain(): Promise<void>
}

/**
 * On PostgreSQL, changes that appended to the chain themselves would wait for each other, commit by commit. They add to a
 * queue instead, and one transaction moves what is in it to the chain, for all changes that wait. SQLite runs one
 * transaction at a time, and a second one for each change would cost another disk sync.
 */
export function createAuditQueue(writer: ChangeWriter, dialect: Dialect): AuditQueue {
  if (dialect === 'sqlite') {
    return { add: (tx, entries) => appendAudit(tx, entries, dialect), chain: async () => {} }
  }
  return { add, chain: shareRuns(() => chainAll(writer)) }
}

async function add(tx: Transaction<Tables>, entries: readonly AuditEntry[]): Promise<void> {
  if (entries.length === 0) return
  try {
    await tx.insertInto('audit_queue').values(entries.map(auditRowOf)).execute()
  } catch (error) {
    throw new AuditWriteError(error)
  }
}

async function chainAll(writer: ChangeWriter): Promise<void> {
  while ((await writer.run(chainSome)) === CHAINED_AT_ONCE) {}
}

/** The lock comes first: what another console has chained meanwhile is no longer in the queue then. */
async function chainSome(tx: Transaction<Tables>): Promise<number> {
  const head = await lockHead(tx, 'postgres')
  const queued = await tx
    .deleteFrom('audit_queue')
    .where('id', 'in', rows =>
      rows.selectFrom('audit_queue').select('id').orderBy('id').limit(CHAINED_AT_ONCE),
    )
    .returningAll()
    .execute()
  if (queued.length === 0) return 0
  const entries = queued.sort((a, b) => (a.id < b.id ? -1 : 1))
  await appendAfter(tx, head, entries, 'postgres')
  return entries.length
}
