import { hash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { type Kysely, type SqlBool, sql, type Transaction } from 'kysely'
import type { Metrics } from '../../../observability/metrics/metrics.ts'
import type { ChangeWriter, Dialect, Work } from '../database/database.ts'
import { AuditWriteError } from '../database/database-unavailable.ts'
import type { AuditFields, AuditHeadRow, AuditRow, QueuedAuditRow, Tables } from '../database/tables.ts'
import { shareRuns } from '../jobs/share-runs.ts'
import type { AuditAction, AuditDetail, AuditEntry } from './entries.ts'
import {
  type AuditedDatabase,
  type AuditKeys,
  type AuditTrust,
  checkChained,
  checkQueued,
  type RejectedEntry,
  signChained,
  signedFields,
  signQueued,
} from './mac.ts'

/** Rows of one statement: SQLite binds at most 32,766 values. */
const ROWS_AT_ONCE = 500
const HEAD_ID = 1
/** Distinguishes these hashes from any other use of SHA-256, and this form from a later one. */
const FORM = 'postern-audit-1'

export type ChainHead = Pick<AuditHeadRow, 'sequence' | 'hash'>
type ChainedRow = AuditRow & { readonly sequence: number; readonly hash: string }

/** A database, as far as its audit log needs it. */
type AuditTarget = Pick<AuditedDatabase, 'dialect' | 'audit'>

/** A database whose transactions write entries. */
export interface WritableAudit extends AuditTarget {
  readonly changes: ChangeWriter
  /** Called inside the transaction: the time it waits in a burst is no age of the change. */
  readonly now: () => number
}

export const CHAIN_START: ChainHead = { sequence: 0, hash: '0'.repeat(64) }

interface AuditedParts {
  readonly database: Pick<AuditedDatabase, 'changes'>
  readonly metrics: Pick<Metrics, 'auditWriteFailures'>
}

/** Runs a transaction that writes an audit entry. @throws AuditWriteError for any failure: the outcome is unknown */
export async function runAudited<Result>(
  { database, metrics }: AuditedParts,
  work: Work<Result>,
): Promise<Result> {
  try {
    return await database.changes.run(work)
  } catch (error) {
    metrics.auditWriteFailures.inc()
    throw AuditWriteError.of(error)
  }
}

/**
 * The hash of an entry: over its place, the hash before it, and all that it says. It needs no secret, so that it stays the
 * same when the entry is signed again with another one.
 */
export function hashEntry(previousHash: string, row: AuditFields & Pick<AuditRow, 'sequence'>): string {
  return hash('sha256', JSON.stringify([FORM, previousHash, row.sequence, ...signedFields(row)]))
}

/** Continues the chain after `head`, and signs each entry at its place. */
export function chainRows(head: ChainHead, entries: readonly AuditFields[], keys: AuditKeys): ChainedRow[] {
  let { sequence, hash: previousHash } = head
  return entries.map(entry => {
    sequence += 1
    previousHash = hashEntry(previousHash, { ...entry, sequence })
    const row = { ...entry, sequence, hash: previousHash }
    return { ...row, ...signChained(keys, row) }
  })
}

function toAuditFields(entry: AuditEntry): AuditFields {
  return {
    id: entry.id,
    workspace_id: entry.workspaceId ?? '',
    at_ms: entry.atMs,
    actor: entry.actor,
    action: entry.action,
    key_id: entry.keyId ?? '',
    detail: JSON.stringify(entry.detail),
  }
}

export function readAuditRow(row: AuditRow): AuditEntry {
  return {
    id: row.id,
    workspaceId: row.workspace_id === '' ? null : row.workspace_id,
    atMs: row.at_ms,
    actor: row.actor,
    // Only appendAudit() writes these two columns.
    action: row.action as AuditAction,
    keyId: row.key_id === '' ? null : row.key_id,
    detail: JSON.parse(row.detail) as AuditDetail,
  }
}

/** Appends entries to the chain. Other changes that write audit entries wait until this transaction ends: call it last. */
export async function appendAudit(
  tx: Transaction<Tables>,
  entries: readonly AuditEntry[],
  target: AuditTarget,
): Promise<void> {
  if (entries.length === 0) return
  await appendAfter(tx, await lockHead(tx, target.dialect), entries.map(toAuditFields), target)
}

/** @param head as locked by this transaction */
export async function appendAfter(
  tx: Transaction<Tables>,
  head: ChainHead,
  entries: readonly AuditFields[],
  { dialect, audit }: AuditTarget,
): Promise<void> {
  const rows = chainRows(head, entries, audit.keys)
  const lastStart = Math.floor((rows.length - 1) / ROWS_AT_ONCE) * ROWS_AT_ONCE
  for (let from = 0; from < lastStart; from += ROWS_AT_ONCE) {
    const part = rows.slice(from, from + ROWS_AT_ONCE)
    await tx.insertInto('audit').values(part).execute()
  }
  await insertLast(tx, rows.slice(lastStart), dialect)
}

/** Moves the head too. On PostgreSQL it is one statement: a round trip less while other changes wait. */
async function insertLast(
  tx: Transaction<Tables>,
  rows: readonly ChainedRow[],
  dialect: Dialect,
): Promise<void> {
  const last = rows.at(-1)
  if (last === undefined) return
  const { sequence, hash: newest } = last
  const moveHead = (database: Pick<Transaction<Tables>, 'updateTable'>) =>
    database.updateTable('audit_head').set({ sequence, hash: newest }).where('id', '=', HEAD_ID)
  if (dialect === 'postgres') {
    await tx
      .with('head', database => moveHead(database))
      .insertInto('audit')
      .values(rows)
      .execute()
    return
  }
  await tx.insertInto('audit').values(rows).execute()
  await moveHead(tx).execute()
}

/** SQLite runs one writing transaction at a time and needs no lock. */
export async function lockHead(tx: Transaction<Tables>, dialect: Dialect): Promise<ChainHead> {
  const query = tx.selectFrom('audit_head').select(['sequence', 'hash']).where('id', '=', HEAD_ID)
  return (dialect === 'postgres' ? query.forUpdate() : query).executeTakeFirstOrThrow()
}

/** @returns null if its row was deleted */
export async function readHead(database: Kysely<Tables>): Promise<ChainHead | null> {
  return (await database.selectFrom('audit_head').select(['sequence', 'hash']).executeTakeFirst()) ?? null
}

/** Whether an entry that was the newest once is still in its place. Nothing was cut off before it then, or written anew. */
export async function isInChain(
  database: Kysely<Tables>,
  { sequence, hash }: ChainHead,
  { keys }: AuditTrust,
): Promise<boolean> {
  if (sequence === 0) return true
  const query = database.selectFrom('audit').selectAll().where('sequence', '=', sequence)
  const row = await query.executeTakeFirst()
  return row?.hash === hash && (keys.size === 0 || checkChained(keys, row) !== 'invalid')
}

/** SQLite does them in one turn of the event loop. */
const SIGNED_AT_ONCE = 100
/** While another console still signs with a secret, its entries are left to it: two consoles must not sign in turns. */
const SIGNS_NO_MORE_MS = 300_000

/**
 * Signs with the first secret every entry that another given secret has signed, each after its MAC was checked: once it is
 * done, that secret can be removed, and the log is verified without it.
 */
export async function signAgain({ changes, now, audit }: WritableAudit): Promise<void> {
  const { keys } = audit
  const [current, ...others] = keys.keys()
  if (current === undefined) return
  const signing = await changes.run(tx => stateSigning(tx, current, now()))
  for (const former of others) {
    if (signing.has(former)) continue
    let after: number | null = 0
    while (after !== null) {
      const from: number = after
      after = await changes.run(tx => signSome(tx, keys, former, from))
      await setImmediate()
    }
  }
}

/** States that this console signs with `current`. @returns what consoles sign with now */
async function stateSigning(
  tx: Transaction<Tables>,
  current: string,
  nowMs: number,
): Promise<ReadonlySet<string>> {
  await tx
    .insertInto('signing_secrets')
    .values({ fingerprint: current, first_used_at_ms: nowMs, signs_audit_at_ms: nowMs })
    .onConflict(conflict => conflict.column('fingerprint').doUpdateSet({ signs_audit_at_ms: nowMs }))
    .execute()
  const rows = await tx
    .selectFrom('signing_secrets')
    .select('fingerprint')
    .where('signs_audit_at_ms', '>', nowMs - SIGNS_NO_MORE_MS)
    .execute()
  return new Set(rows.map(({ fingerprint }) => fingerprint))
}

/** @returns where to go on; null at the end */
async function signSome(
  tx: Transaction<Tables>,
  keys: AuditKeys,
  former: string,
  after: number,
): Promise<number | null> {
  const rows = await tx
    .selectFrom('audit')
    .selectAll()
    .where('signed_by', '=', former)
    .where('sequence', '>', after)
    .where('sequence', '<=', Number.MAX_SAFE_INTEGER)
    .orderBy('sequence')
    .limit(SIGNED_AT_ONCE)
    .execute()
  for (const row of rows) {
    if (checkChained(keys, row) !== 'valid') continue
    await tx.updateTable('audit').set(signChained(keys, row)).where('id', '=', row.id).execute()
  }
  return rows.length < SIGNED_AT_ONCE ? null : (rows.at(-1)?.sequence ?? null)
}

/** Entries of one transaction, during which other consoles cannot append. */
const CHAINED_AT_ONCE = 500

/** The audit entries of single changes, which come in bursts. */
export interface AuditQueue {
  /** Writes the entries of a change in its transaction; call it last. */
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
  await tx.insertInto('audit_queue').values(rows).execute()
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
