import type { Kysely, Transaction } from 'kysely'
import { type EarlierAnswer, REPETITION_MS, type Repetition } from '../operations/repetition.ts'
import type { Change } from './key-repository.ts'
import type { Tables } from './tables.ts'

/** So many are deleted at a time; a day's worth at once would hold everybody up. */
const PURGE_SIZE = 1000

/**
 * Keeps what is going to be answered, if nobody else has acted on the same Idempotency-Key. Where somebody is about to,
 * the database makes this wait until that is decided.
 * @returns null where it is kept
 */
export async function insertAnswer(
  tx: Transaction<Tables>,
  answer: NonNullable<Change['answer']>,
  nowMs: number,
): Promise<EarlierAnswer | null> {
  const { id, request, outcome } = answer
  await tx
    .deleteFrom('answers')
    .where('id', '=', id)
    .where('at_ms', '<=', nowMs - REPETITION_MS)
    .execute()
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('answers')
    .values({ id, request, outcome, at_ms: nowMs })
    .onConflict(conflict => conflict.column('id').doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows === 1n ? null : findAnswer(tx, answer, nowMs)
}

export async function findAnswer(
  database: Kysely<Tables>,
  { id, request }: Repetition,
  nowMs: number,
): Promise<EarlierAnswer | null> {
  const row = await database
    .selectFrom('answers')
    .selectAll()
    .where('id', '=', id)
    .where('at_ms', '>', nowMs - REPETITION_MS)
    .executeTakeFirst()
  if (row === undefined) return null
  return row.request === request ? { kind: 'same_request', outcome: row.outcome } : { kind: 'other_request' }
}

/** @returns whether there may be more */
export async function purgeAnswers(tx: Transaction<Tables>, nowMs: number): Promise<boolean> {
  const old = tx
    .selectFrom('answers')
    .select('id')
    .where('at_ms', '<=', nowMs - REPETITION_MS)
    .orderBy('id')
    .limit(PURGE_SIZE)
  const { numDeletedRows } = await tx.deleteFrom('answers').where('id', 'in', old).executeTakeFirst()
  return numDeletedRows === BigInt(PURGE_SIZE)
}
