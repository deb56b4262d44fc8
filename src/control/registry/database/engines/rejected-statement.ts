import pg from 'pg'

/** SQLSTATE classes of a value or a constraint: the fault of the statement, not of the server or the connection. */
const REJECTED_SQLSTATE = /^(?:22|23)/

/** Whether PostgreSQL rejected a statement for its values, also as the cause of another error: its transaction was rolled back. */
export function isRejected(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return REJECTED_SQLSTATE.test(error.code ?? '')
  return error instanceof Error && error.cause !== undefined && isRejected(error.cause)
}
