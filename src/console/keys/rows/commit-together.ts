import { sql, type Transaction } from 'kysely'
import { enqueueChanges } from '../../announcing/rows/outbox-rows.ts'
import { AuditWriteError, appendAudit } from '../../platform/audit/chain.ts'
import type { ChangeWriter } from '../../platform/database/change-writer.ts'
import type { Database } from '../../platform/database/database.ts'
import { isRejected } from '../../platform/database/rejected-statement.ts'
import type { Tables } from '../../platform/database/tables.ts'
import { insertEvents } from '../../platform/jobs/delivery-rows.ts'
import type { Change, CommitOutcome, StoredKey } from './key-repository.ts'
import { rowOf } from './key-rows.ts'

/** Bounds the time of one transaction. */
const CHANGES_AT_ONCE = 256

/** A change of one stored key and nothing else: revoked, suspended, resumed, edited. */
export interface Replacement extends Change {
  readonly issued: null
  readonly replaced: StoredKey
  readonly response: null
}

export function isReplacement(change: Change): change is Replacement {
  return change.issued === null && change.replaced !== null && change.response === null
}

interface Waiting {
  readonly change: Replacement
  readonly committed: PromiseWithResolvers<CommitOutcome>
}

export interface TogetherContext extends Pick<Database, 'audit'> {
  /** The time of commits. */
  readonly now: () => number
}

/**
 * For PostgreSQL: commits the changes that arrive during a transaction with the next one, so that a burst costs a few round trips and
 * disk syncs for each hundred of them.
 */
export function createCommitTogether(
  writer: ChangeWriter,
  context: TogetherContext,
): (change: Replacement) => Promise<CommitOutcome> {
  let waiting: Waiting[] = []
  let isRunning = false
  const run = async () => {
    isRunning = true
    while (waiting.length > 0) {
      const some = waiting.slice(0, CHANGES_AT_ONCE)
      waiting = waiting.slice(CHANGES_AT_ONCE)
      await commitSome(writer, some, context)
    }
    isRunning = false
  }
  return change => {
    const committed = Promise.withResolvers<CommitOutcome>()
    waiting.push({ change, committed })
    if (!isRunning) void run()
    return committed.promise
  }
}

/** Never rejects. */
async function commitSome(
  writer: ChangeWriter,
  some: readonly Waiting[],
  context: TogetherContext,
): Promise<void> {
  try {
    const changes = some.map(({ change }) => change)
    const outcomes = await writer.run(tx => write(tx, changes, context))
    for (const [index, { committed }] of some.entries()) committed.resolve(outcomes[index] ?? STALE)
  } catch (error) {
    // The server rejected a statement, so that nothing was committed: the others must not fail with the one that it rejected.
    if (some.length > 1 && isRejected(error)) {
      for (const one of some) await commitSome(writer, [one], context)
      return
    }
    // Neither a change nor its audit entry was written, or both were.
    const failure = error instanceof AuditWriteError ? error : new AuditWriteError(error)
    for (const { committed } of some) committed.reject(failure)
  }
}

const STALE: CommitOutcome = { kind: 'stale' }

/** Locks in the order of every other writer: keys, in one order, then the audit log. @returns the outcome of each */
async function write(
  tx: Transaction<Tables>,
  changes: readonly Replacement[],
  { now, audit }: TogetherContext,
): Promise<CommitOutcome[]> {
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
  await insertEvents(
    tx,
    current.flatMap(({ events = [] }) => events),
  )
  const pending = await enqueueChanges(tx, keys, nowMs)
  await appendAudit(
    tx,
    current.flatMap(change => change.audit),
    { dialect: 'postgres', audit },
  )
  const pendingOf = new Map(current.map((change, index) => [change, pending.slice(index, index + 1)]))
  return changes.map(change => {
    const pending = pendingOf.get(change)
    return pending === undefined ? STALE : { kind: 'committed', pending }
  })
}

/** @param keys locked, and of the version before */
async function replaceKeys(
  tx: Transaction<Tables>,
  keys: readonly StoredKey[],
  nowMs: number,
): Promise<void> {
  const rows = keys.map(key => rowOf(key, nowMs))
  const [first] = rows
  if (first === undefined) return
  const columns = Object.keys(first).filter(column => column !== 'id')
  const assignments = columns.map(column => sql`${sql.id(column)} = given.${sql.id(column)}`)
  await sql`update keys set ${sql.join(assignments)}
    from json_populate_recordset(null::keys, ${JSON.stringify(rows)}::json) as given
    where keys.id = given.id`.execute(tx)
}
