import { sql, type Transaction } from 'kysely'
import { insertNotices } from '../../webhooks/delivery-rows.ts'
import { insertAnswer } from '../database/answer-rows.ts'
import { AuditWriteError, insertAuditEntry } from '../database/audit-rows.ts'
import type { ChangeWriter } from '../database/change-writer.ts'
import type { Dialect } from '../database/database.ts'
import type { Change, CommitOutcome, PendingChange, StoredKey } from '../database/key-repository.ts'
import { rowOf, selectKeys } from '../database/key-rows.ts'
import { noteChange } from '../database/outbox-rows.ts'
import type { Tables } from '../database/tables.ts'

/** Carries an outcome out of a transaction that must leave nothing behind. */
class Abandoned extends Error {
  readonly outcome: CommitOutcome

  constructor(outcome: CommitOutcome) {
    super(`Abandoned: ${outcome.kind}`)
    this.outcome = outcome
  }
}

/** @param now asked once the transaction has begun: in a burst it waits, and that time is no age of the change */
export async function commitChange(
  writer: ChangeWriter,
  change: Change,
  { now, dialect }: { now: () => number; dialect: Dialect },
): Promise<CommitOutcome> {
  try {
    const notes = await writer.run(tx => write(tx, change, now(), dialect))
    return { kind: 'committed', notes }
  } catch (error) {
    if (error instanceof Abandoned) return error.outcome
    // The entry is part of the transaction: what kept the one out kept the other out.
    throw change.audit.length === 0 || error instanceof AuditWriteError ? error : new AuditWriteError(error)
  }
}

/** Locks are taken in one order by whoever comes, so that no two wait for each other: hint, answer, key. */
async function write(
  tx: Transaction<Tables>,
  { issued, replaced, audit, answer, notices = [] }: Change,
  nowMs: number,
  dialect: Dialect,
): Promise<PendingChange[]> {
  if (issued !== null && (await isHintTaken(tx, issued, nowMs, dialect))) {
    throw new Abandoned({ kind: 'hint_taken' })
  }
  const earlier = answer === null ? null : await insertAnswer(tx, answer, nowMs)
  if (earlier !== null) throw new Abandoned({ kind: 'repeated', earlier })
  if (replaced !== null && !(await replaceKey(tx, replaced, nowMs))) throw new Abandoned({ kind: 'stale' })
  if (issued !== null) await tx.insertInto('keys').values(rowOf(issued, nowMs)).execute()
  for (const entry of audit) await insertAuditEntry(tx, entry)
  await insertNotices(tx, notices)
  const notes: PendingChange[] = []
  for (const key of [issued, replaced]) if (key !== null) notes.push(await noteChange(tx, key, nowMs))
  return notes
}

async function isHintTaken(
  tx: Transaction<Tables>,
  { record: { workspaceId, hint } }: StoredKey,
  nowMs: number,
  dialect: Dialect,
): Promise<boolean> {
  // Two consoles that drew the same hint would both see it free: whoever comes second waits for the first to commit.
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

/** @returns false where the stored record is of another version than the one just before */
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
