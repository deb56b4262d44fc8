import { sql, type Transaction } from 'kysely'
import { QUERY_CANCELED } from '../../platform/database/postgres-errors.ts'
import type { Tables } from '../../platform/database/tables.ts'

/** PostgreSQL cancels a later statement of this transaction that takes longer: begin it with `MAY_TIME_OUT`. */
export async function limitTime(tx: Transaction<Tables>, ms: number): Promise<void> {
  await sql`set local statement_timeout = ${sql.lit(ms)}`.execute(tx)
}

/** Whether an error says that a statement was canceled. */
export function isCanceled(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === QUERY_CANCELED
}
