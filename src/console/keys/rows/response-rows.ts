import type { Kysely, Transaction } from 'kysely'
import type { Tables } from '../../platform/database/tables.ts'
import {
  type EarlierResponse,
  IDEMPOTENCY_TTL_MS,
  type Idempotency,
} from '../../platform/http/idempotency.ts'

/** Rows deleted in one transaction; a day's worth at once would block others. */
const PURGE_SIZE = 1000

/** What later requests with the same Idempotency-Key get. */
export interface StoredResponse extends Idempotency {
  readonly outcome: string
}

/**
 * Stores the response unless the Idempotency-Key was used before. A concurrent use makes the database wait for its commit.
 * @returns null if it was stored
 */
export async function insertResponse(
  tx: Transaction<Tables>,
  response: StoredResponse,
  nowMs: number,
): Promise<EarlierResponse | null> {
  const { id, request, outcome } = response
  await tx
    .deleteFrom('answers')
    .where('id', '=', id)
    .where('at_ms', '<=', nowMs - IDEMPOTENCY_TTL_MS)
    .execute()
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('answers')
    .values({ id, request, outcome, at_ms: nowMs })
    .onConflict(conflict => conflict.column('id').doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows === 1n ? null : findResponse(tx, response, nowMs)
}

export async function findResponse(
  database: Kysely<Tables>,
  { id, request }: Idempotency,
  nowMs: number,
): Promise<EarlierResponse | null> {
  const row = await database
    .selectFrom('answers')
    .selectAll()
    .where('id', '=', id)
    .where('at_ms', '>', nowMs - IDEMPOTENCY_TTL_MS)
    .executeTakeFirst()
  if (row === undefined) return null
  return row.request === request ? { kind: 'same_request', outcome: row.outcome } : { kind: 'other_request' }
}

/** As large as the rows of a change: a disk that is nearly full has room for less. */
const PROBE = ' '.repeat(16 * 1024)

/** Inserts and deletes a row of this console, which the database must write to its log when it commits. */
export async function probeWrite(tx: Transaction<Tables>, consoleId: string, nowMs: number): Promise<void> {
  const id = `probe of ${consoleId}`
  await tx.insertInto('answers').values({ id, request: '', outcome: PROBE, at_ms: nowMs }).execute()
  await tx.deleteFrom('answers').where('id', '=', id).execute()
}

/** @returns whether there may be more */
export async function purgeResponses(tx: Transaction<Tables>, nowMs: number): Promise<boolean> {
  const old = tx
    .selectFrom('answers')
    .select('id')
    .where('at_ms', '<=', nowMs - IDEMPOTENCY_TTL_MS)
    .orderBy('id')
    .limit(PURGE_SIZE)
  const { numDeletedRows } = await tx.deleteFrom('answers').where('id', 'in', old).executeTakeFirst()
  return numDeletedRows === BigInt(PURGE_SIZE)
}
