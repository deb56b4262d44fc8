import { sql, type Transaction } from 'kysely'
import { enqueueChanges } from '../../announcing/rows/outbox-rows.ts'
import { AuditWriteError } from '../../platform/audit/chain.ts'
import type { AuditQueue } from '../../platform/audit/queue.ts'
import type { ChangeWriter } from '../../platform/database/change-writer.ts'
import type { Database, Dialect } from '../../platform/database/database.ts'
import type { Tables } from '../../platform/database/tables.ts'
import { insertEvents } from '../../platform/jobs/delivery-rows.ts'
import type { Change, CommitOutcome, PendingChange, StoredKey } from './key-repository.ts'
import { rowOf, selectKeys } from './key-rows.ts'
import { insertResponse } from './response-rows.ts'

/** Rolls the transaction back and carries its outcome out. */
class RolledBack extends Error {
  readonly outcome: CommitOutcome

  constructor(outcome: CommitOutcome) {
    super(`Rolled back: ${outcome.kind}`)
    this.outcome = outcome
  }
}

export interface CommitContext {
  /** Called inside the transaction: the time it waits in a burst is no age of the change. */
  readonly now: () => number
  readonly dialect: Dialect
  readonly audit: Database['audit']
  readonly auditQueue: AuditQueue
}

export async function commitChange(
  writer: ChangeWriter,
  change: Change,
  context: CommitContext,
): Promise<CommitOutcome> {
  try {
    const pending = await writer.run(tx => write(tx, change, context))
    // Committed: what follows must not look like a failure. Entries that are not chained now are chained with the next ones.
    if (change.audit.length > 0) await context.auditQueue.chain().catch(() => {})
    return { kind: 'committed', pending }
  } catch (error) {
    if (error instanceof RolledBack) return error.outcome
    // The change and its audit entry are one transaction: neither was written, or both were.
    throw change.audit.length === 0 || error instanceof AuditWriteError ? error : new AuditWriteError(error)
  }
}

/** Every writer takes locks in one order, which rules out deadlocks: hint, response, key, audit chain. */
async function write(
  tx: Transaction<Tables>,
  { issued, replaced, audit, response, events = [] }: Change,
  { now, dialect, auditQueue }: CommitContext,
): Promise<PendingChange[]> {
  const nowMs = now()
  if (issued !== null && (await isHintTaken(tx, issued, nowMs, dialect))) {
    throw new RolledBack({ kind: 'hint_taken' })
  }
  const earlier = response === null ? null : await insertResponse(tx, response, nowMs)
  if (earlier !== null) throw new RolledBack({ kind: 'repeated', earlier })
  if (replaced !== null && !(await replaceKey(tx, replaced, nowMs))) throw new RolledBack({ kind: 'stale' })
  if (issued !== null) await tx.insertInto('keys').values(rowOf(issued, nowMs)).execute()
  await insertEvents(tx, events)
  const changed = [issued, replaced].filter(key => key !== null)
  const pending = await enqueueChanges(tx, changed, nowMs)
  await auditQueue.add(tx, audit)
  return pending
}

async function isHintTaken(
  tx: Transaction<Tables>,
  { record: { workspaceId, hint } }: StoredKey,
  nowMs: number,
  dialect: Dialect,
): Promise<boolean> {
  // Two consoles that drew the same hint would both see it free: the second waits for the first to commit.
  if (dialect === 'postgres') {
    await sql`select pg_advisory_xact_lock(hashtextextended(${`${workspaceId} ${hint}`}, 0))`.execute(tx)
  }
  const twin = await selectKeys(tx)
    .where('workspace_id', '=', workspaceId)
    .where('hint', '=', hint)
    .where('revoked_at_ms', 'is', null)
    .where('expires_at_ms', '>', nowMs)
    .executeTakeFirst()
  return twin !== undefined
}

/** @returns false unless the stored record is the previous version */
async function replaceKey(tx: Transaction<Tables>, key: StoredKey, nowMs: number): Promise<boolean> {
  const { id, ...changed } = rowOf(key, nowMs)
  const { numUpdatedRows } = await tx
    .updateTable('keys')
    .set(changed)
    .where('id', '=', id)
    .where('version', '=', changed.version - 1)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}
