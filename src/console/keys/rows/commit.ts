import { sql, type Transaction } from 'kysely'
import type { StoredKey } from '../../../domain/key/key-record.ts'
import { enqueueChanges, type PendingChange } from '../../announcing/index.ts'
import { type AuditQueue, appendAudit, type WritableAudit } from '../../platform/audit/chain.ts'
import type { AuditEntry } from '../../platform/audit/entries.ts'
import type { Dialect } from '../../platform/database/database.ts'
import { AuditWriteError } from '../../platform/database/database-unavailable.ts'
import { isLive, toKeyRow } from '../../platform/database/key-row.ts'
import { isRejected } from '../../platform/database/postgres/errors.ts'
import type { Tables } from '../../platform/database/tables.ts'
import { type EarlierResponse, insertResponse, type StoredResponse } from '../../platform/http/idempotency.ts'
import { shareBatches } from '../../platform/jobs/share-runs.ts'
import { insertEvents, type WebhookEvent } from '../../webhooks/index.ts'
import { areCurrent } from './plans.ts'

/** Bounds the time of one transaction. */
const CHANGES_AT_ONCE = 256

/** What one operation changes in the registry. */
export interface KeyChange {
  /** A new key. */
  readonly issued: StoredKey | null
  /** The next version of one that is stored. */
  readonly replaced: StoredKey | null
  /** The plan that the workspace of a new key must have still; absent where it does not matter. */
  readonly workspacePlan?: string | null | undefined
  /** In their order. */
  readonly audit: readonly AuditEntry[]
}

/** With what else is committed in its transaction. */
export interface Change extends KeyChange {
  /** The response to later requests with the same Idempotency-Key. */
  readonly response: StoredResponse | null
  /** For the webhook. */
  readonly events?: readonly WebhookEvent[]
}

export type CommitOutcome =
  /** @property pending of the key issued and the key replaced, in this order, as far as there are any */
  | { readonly kind: 'committed'; readonly pending: readonly PendingChange[] }
  /** Another live key of the workspace has the same hint. */
  | { readonly kind: 'hint_taken' }
  /** The stored record is no longer the previous version, or the plan of the workspace another one: a change came first. */
  | { readonly kind: 'stale' }
  /** Another request has used this Idempotency-Key. */
  | { readonly kind: 'repeated'; readonly earlier: EarlierResponse }

interface CommitContext extends WritableAudit {
  readonly auditQueue: AuditQueue
}

/**
 * All or nothing: a change to a key, its audit entry and its place in the outbox. On PostgreSQL, changes that arrive during a
 * transaction are committed by the next one, so that a burst costs a few round trips and disk syncs for each hundred of them.
 */
export function createCommit(context: CommitContext): (change: Change) => Promise<CommitOutcome> {
  const commitTogether = shareBatches(
    (changes: readonly Replacement[]) => commitReplacements(changes, context),
    CHANGES_AT_ONCE,
  )
  return async change => {
    if (context.dialect === 'sqlite' || !isReplacement(change)) return commitChange(change, context)
    const outcomes = await commitTogether([change])
    return outcomes.get(change) ?? STALE
  }
}

/** Rolls the transaction back and carries its outcome out. */
class RolledBack extends Error {
  readonly outcome: CommitOutcome

  constructor(outcome: CommitOutcome) {
    super(`Rolled back: ${outcome.kind}`)
    this.outcome = outcome
  }
}

async function commitChange(change: Change, context: CommitContext): Promise<CommitOutcome> {
  try {
    const pending = await context.changes.run(tx => writeChange(tx, change, context))
    // Committed: what follows must not look like a failure. Entries that are not chained now are chained with the next ones.
    if (change.audit.length > 0) await context.auditQueue.chain().catch(() => {})
    return { kind: 'committed', pending }
  } catch (error) {
    if (error instanceof RolledBack) return error.outcome
    // The change and its audit entry are one transaction: neither was written, or both were.
    throw change.audit.length === 0 ? error : AuditWriteError.of(error)
  }
}

/** Every writer takes locks in one order, which rules out deadlocks: hint, plan, response, key, audit chain. */
async function writeChange(
  tx: Transaction<Tables>,
  { issued, replaced, workspacePlan, audit, response, events = [] }: Change,
  { now, dialect, auditQueue }: CommitContext,
): Promise<PendingChange[]> {
  const nowMs = now()
  if (issued !== null && (await isHintTaken(tx, issued, nowMs, dialect))) {
    throw new RolledBack({ kind: 'hint_taken' })
  }
  if (issued !== null && workspacePlan !== undefined) {
    const plans = new Map([[issued.record.workspaceId, workspacePlan]])
    if (!(await areCurrent(tx, plans, dialect))) throw new RolledBack(STALE)
  }
  const earlier = response === null ? null : await insertResponse(tx, response, nowMs)
  if (earlier !== null) throw new RolledBack({ kind: 'repeated', earlier })
  if (replaced !== null && !(await replaceKey(tx, replaced, nowMs))) throw new RolledBack({ kind: 'stale' })
  if (issued !== null) await tx.insertInto('keys').values(toKeyRow(issued, nowMs)).execute()
  const keys = [issued, replaced].filter(key => key !== null)
  return writeEffects(tx, { keys, events, audit, nowMs }, auditQueue.add)
}

interface Effects {
  /** As changed. */
  readonly keys: readonly StoredKey[]
  readonly events: readonly WebhookEvent[]
  readonly audit: readonly AuditEntry[]
  readonly nowMs: number
}

/**
 * Writes what belongs to a change of keys in its transaction: webhook events, a place in each outbox, audit entries. Call it last:
 * appending to the audit log makes other changes wait for the commit.
 * @returns a pending change for each key, in the same order
 */
export async function writeEffects(
  tx: Transaction<Tables>,
  { keys, events, audit, nowMs }: Effects,
  appendEntries: AuditQueue['add'],
): Promise<PendingChange[]> {
  await insertEvents(tx, events)
  const pending = await enqueueChanges(tx, keys, nowMs)
  await appendEntries(tx, audit)
  return pending
}

async function isHintTaken(
  tx: Transaction<Tables>,
  { record: { workspaceId, hint } }: StoredKey,
  nowMs: number,
  dialect: Dialect,
): Promise<boolean> {
  // Two consoles that generate the same hint would both see it free: the second waits for the first to commit.
  if (dialect === 'postgres') {
    await sql`select pg_advisory_xact_lock(hashtextextended(${`${workspaceId} ${hint}`}, 0))`.execute(tx)
  }
  const twin = await tx
    .selectFrom('keys')
    .select('id')
    .where('workspace_id', '=', workspaceId)
    .where('hint', '=', hint)
    .where(isLive(nowMs))
    .executeTakeFirst()
  return twin !== undefined
}

/** @returns false unless the stored record is the previous version */
async function replaceKey(tx: Transaction<Tables>, key: StoredKey, nowMs: number): Promise<boolean> {
  const { id, ...changed } = toKeyRow(key, nowMs)
  const { numUpdatedRows } = await tx
    .updateTable('keys')
    .set(changed)
    .where('id', '=', id)
    .where('version', '=', changed.version - 1)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** A change of one stored key and nothing else: revoked, suspended, resumed, edited. */
interface Replacement extends Change {
  readonly issued: null
  readonly replaced: StoredKey
  readonly response: null
}

function isReplacement(change: Change): change is Replacement {
  return change.issued === null && change.replaced !== null && change.response === null
}

/** @returns the outcome of each, which is an error where the server rejected it */
async function commitReplacements(
  changes: readonly Replacement[],
  context: CommitContext,
): Promise<ReadonlyMap<Change, CommitOutcome | Promise<CommitOutcome>>> {
  try {
    return await context.changes.run(tx => writeTogether(tx, changes, context))
  } catch (error) {
    // The server rejected a statement, so that nothing was committed: the others must not fail with the one that it rejected.
    if (changes.length === 1 || !isRejected(error)) throw AuditWriteError.of(error)
    const alone = new Map<Change, Promise<CommitOutcome>>()
    for (const change of changes) {
      const outcome = commitChange(change, context)
      alone.set(change, outcome)
      await outcome.catch(() => {}) // Its caller gets the error.
    }
    return alone
  }
}

const STALE: CommitOutcome = { kind: 'stale' }

/** Locks in the order of every other writer: keys, in one order, then the audit log. @returns what was committed; the others are stale */
async function writeTogether(
  tx: Transaction<Tables>,
  changes: readonly Replacement[],
  { now, dialect, audit }: CommitContext,
): Promise<ReadonlyMap<Change, CommitOutcome>> {
  const nowMs = now()
  const ids = changes.map(({ replaced }) => replaced.record.id)
  const stored = await tx
    .selectFrom('keys')
    .select(['id', 'version'])
    .where('id', 'in', ids)
    .orderBy('id')
    .forUpdate()
    .execute()
  const versions = new Map(stored.map(({ id, version }) => [id, version]))
  const current = changes.filter(({ replaced: { record } }) => {
    if (versions.get(record.id) !== record.version - 1) return false
    // Another change of the same key among these comes too late.
    versions.set(record.id, record.version)
    return true
  })
  const keys = current.map(({ replaced }) => replaced)
  await replaceKeys(tx, keys, nowMs)
  const events = current.flatMap(change => change.events ?? [])
  const entries = current.flatMap(change => change.audit)
  const pending = await writeEffects(tx, { keys, events, audit: entries, nowMs }, (tx, audited) =>
    appendAudit(tx, audited, { dialect, audit }),
  )
  return new Map(
    current.map((change, index) => [change, { kind: 'committed', pending: pending.slice(index, index + 1) }]),
  )
}

/** @param keys locked, and of the version before */
async function replaceKeys(
  tx: Transaction<Tables>,
  keys: readonly StoredKey[],
  nowMs: number,
): Promise<void> {
  const rows = keys.map(key => toKeyRow(key, nowMs))
  const [first] = rows
  if (first === undefined) return
  const columns = Object.keys(first).filter(column => column !== 'id')
  const assignments = columns.map(column => sql`${sql.id(column)} = given.${sql.id(column)}`)
  await sql`update keys set ${sql.join(assignments)}
    from json_populate_recordset(null::keys, ${JSON.stringify(rows)}::json) as given
    where keys.id = given.id`.execute(tx)
}
