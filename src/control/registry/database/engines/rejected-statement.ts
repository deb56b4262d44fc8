import pg from 'pg'

/** SQLSTATE classes of a value or a constraint: the fault of the statement, not of the server or the connection. */
const REJECTED_SQLSTATE = /^(?:22|23)/

/** Whether PostgreSQL rejected a statement for its values, also as the cause of another error: its transaction was rolled back. */
export function isRejected(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return REJECTED_SQLSTATE.test(error.code ?? '')
  return error instanceof Error && error.cause !== undefined && isRejected(error.cause)
}

/** SQLSTATEs of a user without the right, and of a server or session that does not write. */
const NOT_PERMITTED: ReadonlySet<string> = new Set(['42501', '25006'])

export function isNotPermitted(error: unknown): boolean {
  return error instanceof pg.DatabaseError && NOT_PERMITTED.has(error.code ?? '')
}
