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

/** SQLSTATE class of a user or password that is not accepted, and of a missing right. */
export function isForbidden(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return /^(?:28|42501)/.test(error.code ?? '')
  return error instanceof Error && error.cause !== undefined && isForbidden(error.cause)
}

/** The server went away, or was full, during a task. The driver's own error has no code. */
export function isConnectionLost(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return /^(?:08|53|57P)/.test(error.code ?? '')
  if (!(error instanceof Error)) return false
  const code = 'code' in error ? String(error.code) : ''
  if (
    /^(?:ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH)/.test(code) ||
    error.message.startsWith('Connection terminated')
  ) {
    return true
  }
  return error.cause !== undefined && isConnectionLost(error.cause)
}
