import { type SqlBool, sql, type Transaction } from 'kysely'
import { AuditWriteError } from '../database/database-unavailable.ts'
import type { QueuedAuditRow, Tables } from '../database/tables.ts'
import { shareRuns } from '../jobs/share-runs.ts'
import { appendAfter, appendAudit, lockHead, toAuditFields, type WritableAudit } from './chain.ts'
import type { AuditEntry } from './entries.ts'
import { type AuditKeys, checkQueued, type RejectedEntry, signQueued } from './mac.ts'

/** Entries of one transaction, during which other consoles cannot append. */
const CHAINED_AT_ONCE = 500

/** The audit entries of single changes, which come in bursts. */
export interface AuditQueue {
  /** Writes the entries of a change in its transaction; call it last. @throws AuditWriteError */
  add(tx: Transaction<Tables>, entries: readonly AuditEntry[]): Promise<void>
  /** Resolves once every entry that `add` has committed before the call is in the chain. */
  chain(): Promise<void>
  /** The same for what another console has left, and a copy from PostgreSQL has brought. */
  chainLeft(): Promise<void>
}

/**
 * On PostgreSQL, changes that appended to the chain themselves would wait for each other, commit by commit. They add to a
 * queue instead, and one transaction moves what is in it to the chain, for all changes that wait. SQLite runs one
 * transaction at a time, and a second one for each change would cost another disk sync.
 */
export function createAuditQueue(context: WritableAudit): AuditQueue {
  const chainLeft = shareRuns(createChaining(context))
  if (context.dialect === 'sqlite') {
    return { add: (tx, entries) => appendAudit(tx, entries, context), chain: async () => {}, chainLeft }
  }
  return { add: (tx, entries) => add(tx, entries, context.audit.keys), chain: chainLeft, chainLeft }
}

async function add(tx: Transaction<Tables>, entries: readonly AuditEntry[], keys: AuditKeys): Promise<void> {
  if (entries.length === 0) return
  const rows = entries
    .map(toAuditFields)
    .map(row => ({ ...row, ...signQueued(keys, row), rejected_at_ms: null }))
  try {
    await tx.insertInto('audit_queue').values(rows).execute()
  } catch (error) {
    throw new AuditWriteError(error)
  }
}

function createChaining(context: WritableAudit): () => Promise<void> {
  let triedWith: AuditKeys | null = null
  return async () => {
    const { keys } = context.audit
    // With other secrets, entries that could not be verified before may be good.
    if (triedWith !== keys) await context.changes.run(tx => acceptAgain(tx, keys))
    triedWith = keys
    for (;;) {
      const { taken, rejected } = await context.changes.run(tx => chainSome(tx, context))
      for (const entry of rejected) context.audit.onRejected(entry)
      if (taken < CHAINED_AT_ONCE) return
    }
  }
}

async function acceptAgain(tx: Transaction<Tables>, keys: AuditKeys): Promise<void> {
  if (keys.size === 0) return
  await tx
    .updateTable('audit_queue')
    .set({ rejected_at_ms: null })
    .where('rejected_at_ms', 'is not', null)
    .where('signed_by', 'in', [...keys.keys()])
    .execute()
}

type TakenRow = QueuedAuditRow & { readonly is_chained: SqlBool }

/**
 * The lock comes first: what another console has chained meanwhile is no longer in the queue then. Entries that no console
 * wrote go back into the queue with a mark, as evidence, and are not taken again.
 */
async function chainSome(
  tx: Transaction<Tables>,
  context: WritableAudit,
): Promise<{ taken: number; rejected: readonly RejectedEntry[] }> {
  const head = await lockHead(tx, context.dialect)
  const taken: TakenRow[] = await tx
    .deleteFrom('audit_queue')
    .where('id', 'in', rows =>
      rows
        .selectFrom('audit_queue')
        .select('id')
        .where('rejected_at_ms', 'is', null)
        .orderBy('id')
        .limit(CHAINED_AT_ONCE),
    )
    .returningAll()
    .returning(sql<SqlBool>`exists (select 1 from audit where audit.id = audit_queue.id)`.as('is_chained'))
    .execute()
  const checked = taken
    .sort((a, b) => (a.id < b.id ? -1 : 1))
    .map(({ is_chained, ...row }) => ({ row, rejected: findRejection(row, Boolean(is_chained), context) }))
  const good = checked.filter(({ rejected }) => rejected === null).map(({ row }) => queuedFields(row))
  const bad = checked.flatMap(({ row, rejected }) => (rejected === null ? [] : [{ row, rejected }]))
  if (bad.length > 0) {
    const rows = bad.map(({ row }) => ({ ...row, rejected_at_ms: context.now() }))
    await tx.insertInto('audit_queue').values(rows).execute()
  }
  if (good.length > 0) await appendAfter(tx, head, good, context)
  return { taken: taken.length, rejected: bad.map(({ rejected }) => rejected) }
}

function queuedFields({ signed_by: _by, mac: _mac, rejected_at_ms: _at, ...fields }: QueuedAuditRow) {
  return fields
}

/** @param isChained an entry that was in the queue before is put there again: its MAC is good */
function findRejection(
  row: QueuedAuditRow,
  isChained: boolean,
  { audit }: WritableAudit,
): RejectedEntry | null {
  const verdict = audit.keys.size === 0 ? 'valid' : checkQueued(audit.keys, row)
  const reason = verdict === 'valid' && isChained ? 'repeated' : verdict
  return reason === 'valid' ? null : { id: row.id, place: 'queue', reason, signedBy: row.signed_by }
}
