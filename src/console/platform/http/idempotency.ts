import type { Kysely, Transaction } from 'kysely'
import type { KeyRecord } from '../../../domain/key/key-record.ts'
import type { Database } from '../database/database.ts'
import type { Tables } from '../database/tables.ts'
import type { Idempotency } from './request-context.ts'

/** How long a request can be repeated with the same Idempotency-Key. */
const IDEMPOTENCY_TTL_MS = 24 * 3_600_000
/** Rows deleted in one transaction; a day's worth at once would block others. */
const PURGE_SIZE = 1000

export type EarlierResponse =
  | { readonly kind: 'same_request'; readonly outcome: string }
  | { readonly kind: 'other_request' }

/** The records of a response at the time it was given. */
interface StoredOutcome {
  readonly record: KeyRecord
  readonly replaced: KeyRecord | null
}

export function encodeOutcome({ record, replaced }: StoredOutcome): string {
  return JSON.stringify({ record, replaced })
}

export function decodeOutcome(text: string): StoredOutcome {
  // Only encodeOutcome() writes this column.
  return JSON.parse(text) as StoredOutcome
}

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
    .deleteFrom('idempotent_responses')
    .where('id', '=', id)
    .where('at_ms', '<=', nowMs - IDEMPOTENCY_TTL_MS)
    .execute()
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('idempotent_responses')
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
    .selectFrom('idempotent_responses')
    .selectAll()
    .where('id', '=', id)
    .where('at_ms', '>', nowMs - IDEMPOTENCY_TTL_MS)
    .executeTakeFirst()
  if (row === undefined) return null
  return row.request === request ? { kind: 'same_request', outcome: row.outcome } : { kind: 'other_request' }
}

/** Stored responses, outside of the transactions that store them. */
export function createResponses({ reader, changes }: Database, now: () => number) {
  return {
    findResponse: (idempotency: Idempotency) => findResponse(reader, idempotency, now()),
    /** Deletes those past their retention. */
    async purge(): Promise<void> {
      while (await changes.run(tx => purgeResponses(tx, now()))) {}
    },
  }
}

/** @returns whether there may be more */
async function purgeResponses(tx: Transaction<Tables>, nowMs: number): Promise<boolean> {
  const old = tx
    .selectFrom('idempotent_responses')
    .select('id')
    .where('at_ms', '<=', nowMs - IDEMPOTENCY_TTL_MS)
    // In the order of an id, SQLite reads all that are kept.
    .orderBy('at_ms')
    .limit(PURGE_SIZE)
  const { numDeletedRows } = await tx
    .deleteFrom('idempotent_responses')
    .where('id', 'in', old)
    .executeTakeFirst()
  return numDeletedRows === BigInt(PURGE_SIZE)
}
