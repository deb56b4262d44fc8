import { sql, type Transaction } from 'kysely'
import type { StoredKey } from '../../../domain/key/key-record.ts'
import { type PendingChange, toPendingChange } from '../../announcing/index.ts'
import {
  type AuditQueue,
  appendAudit,
  createAuditQueue,
  type WritableAudit,
} from '../../platform/audit/chain.ts'
import type { AuditEntry } from '../../platform/audit/entries.ts'
import type { Dialect } from '../../platform/database/database.ts'
import { AuditWriteError } from '../../platform/database/database-unavailable.ts'
import { isLive, toKeyRow } from '../../platform/database/key-row.ts'
import { isRejected } from '../../platform/database/postgres/errors.ts'
import type { Tables } from '../../platform/database/tables.ts'
import { type EarlierResponse, insertResponse, type StoredResponse } from '../../platform/http/idempotency.ts'
import { shareBatches } from '../../platform/jobs/share-runs.ts'
import type { WebhookEvent } from '../../webhooks/index.ts'
import { areCurrent } from './plans.ts'
import { lockKeys, replaceKeys, writeEffects } from './write-keys.ts'

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

/**
 * All or nothing: a change to a key, its audit entry and its place in the outbox. On PostgreSQL, changes of stored keys that
 * arrive during a transaction are committed by the next one, so that a burst costs a few round trips and disk syncs for each hundred of them.
 */
export function createCommit(target: WritableAudit): (change: Change) => Promise<CommitOutcome> {
  const queue = createAuditQueue(target)
  const alone = (change: Change) => commitAlone(change, target, queue)
  const together = shareBatches(
    (changes: readonly Change[]) => commitTogether(changes, target, alone),
    CHANGES_AT_ONCE,
  )
  return async change => {
    if (target.dialect === 'sqlite' || !isReplacement(change)) return alone(change)
    return (await together([change])).get(change) ?? STALE
  }
}

/** A change of one stored key and nothing else: revoked, suspended, resumed, edited. */
function isReplacement({ issued, replaced, response }: Change): boolean {
  return issued === null && replaced !== null && response === null
}

const STALE: CommitOutcome = { kind: 'stale' }

/** Rolls the transaction back and carries its outcome out. */
class RolledBack extends Error {
  readonly outcome: CommitOutcome

  constructor(outcome: CommitOutcome) {
    super(`Rolled back: ${outcome.kind}`)
    this.outcome = outcome
  }
}

async function commitAlone(change: Change, target: WritableAudit, queue: AuditQueue): Promise<CommitOutcome> {
  try {
    const outcome = await target.changes.run(async tx => {
      const nowMs = target.now()
      await reserve(tx, change, nowMs, target.dialect)
      const written = await writeChanges(tx, [change], { ...target, nowMs, append: queue.add })
      return written.get(change) ?? rollBack(STALE)
    })
    // Committed: what follows must not look like a failure. Entries that are not chained now are chained with the next ones.
    if (change.audit.length > 0) await queue.chain().catch(() => {})
    return outcome
  } catch (error) {
    if (error instanceof RolledBack) return error.outcome
    // The change and its audit entry are one transaction: neither was written, or both were.
    throw change.audit.length === 0 ? error : AuditWriteError.of(error)
  }
}

/** @returns the outcome of each, which is an error where the server rejected it; those without one are stale */
async function commitTogether(
  changes: readonly Change[],
  target: WritableAudit,
  commitOne: (change: Change) => Promise<CommitOutcome>,
): Promise<ReadonlyMap<Change, CommitOutcome | Promise<CommitOutcome>>> {
  try {
    const append: AuditQueue['add'] = (tx, entries) => appendAudit(tx, entries, target)
    return await target.changes.run(tx =>
      writeChanges(tx, changes, { ...target, nowMs: target.now(), append }),
    )
  } catch (error) {
    // The server rejected a statement, so that nothing was committed: the others must not fail with the one that it rejected.
    if (changes.length === 1 || !isRejected(error)) throw AuditWriteError.of(error)
    const alone = new Map<Change, Promise<CommitOutcome>>()
    for (const change of changes) {
      const outcome = commitOne(change)
      alone.set(change, outcome)
      await outcome.catch(() => {}) // Its caller gets the error.
    }
    return alone
  }
}

interface Writing {
  readonly nowMs: number
  readonly dialect: Dialect
  readonly append: AuditQueue['add']
}

/**
 * Every writer takes locks in one order, which rules out deadlocks: what it reserves, keys in the order of their ids, audit chain.
 * @returns what was written; the others are stale
 */
async function writeChanges(
  tx: Transaction<Tables>,
  changes: readonly Change[],
  { nowMs, dialect, append }: Writing,
): Promise<ReadonlyMap<Change, CommitOutcome>> {
  const current = await selectCurrent(tx, changes, dialect)
  if (current.length === 0) return new Map()
  const replaced = current.flatMap(change => change.replaced ?? [])
  await replaceKeys(tx, replaced, { nowMs, dialect })
  for (const { issued } of current) {
    if (issued !== null) await tx.insertInto('keys').values(toKeyRow(issued, nowMs)).execute()
  }
  const committed = current.map(change => ({ change, pending: pendingChanges(change, nowMs) }))
  const pending = committed.flatMap(({ pending }) => pending)
  const events = current.flatMap(change => change.events ?? [])
  const audit = current.flatMap(change => change.audit)
  await writeEffects(tx, { pending, events, audit }, append)
  return new Map(committed.map(({ change, pending }) => [change, { kind: 'committed', pending }]))
}

function pendingChanges({ issued, replaced }: Change, nowMs: number): PendingChange[] {
  return [issued, replaced].filter(key => key !== null).map(key => toPendingChange(key, nowMs))
}

/** What a change may need besides the key that it replaces, in this order: a hint, the plan that it was planned with, its Idempotency-Key. */
async function reserve(
  tx: Transaction<Tables>,
  { issued, workspacePlan, response }: Change,
  nowMs: number,
  dialect: Dialect,
): Promise<void> {
  if (issued !== null && (await isHintTaken(tx, issued, nowMs, dialect))) rollBack({ kind: 'hint_taken' })
  if (issued !== null && workspacePlan !== undefined) {
    const plans = new Map([[issued.record.workspaceId, workspacePlan]])
    if (!(await areCurrent(tx, plans, dialect))) rollBack(STALE)
  }
  const earlier = response === null ? null : await insertResponse(tx, response, nowMs)
  if (earlier !== null) rollBack({ kind: 'repeated', earlier })
}

function rollBack(outcome: CommitOutcome): never {
  throw new RolledBack(outcome)
}

/** @returns the changes whose key is of the version before, and those that replace none */
async function selectCurrent(
  tx: Transaction<Tables>,
  changes: readonly Change[],
  dialect: Dialect,
): Promise<readonly Change[]> {
  const ids = changes.flatMap(({ replaced }) => replaced?.record.id ?? [])
  if (ids.length === 0) return changes
  const stored = await lockKeys(tx, ids, dialect).select(['id', 'version']).execute()
  const versions = new Map(stored.map(({ id, version }) => [id, version]))
  return changes.filter(({ replaced }) => {
    if (replaced === null) return true
    const { id, version } = replaced.record
    if (versions.get(id) !== version - 1) return false
    // Another change of the same key among these comes too late.
    versions.delete(id)
    return true
  })
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
