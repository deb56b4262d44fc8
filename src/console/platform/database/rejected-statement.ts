import pg from 'pg'
import { DatabaseUnavailable, troubleOf } from './database-unavailable.ts'

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
  return error instanceof DatabaseUnavailable && NOT_PERMITTED.has(error.sqlState ?? '')
}

/** SQLSTATE class of a user or password that is not accepted, and of a missing right. */
export function isForbidden(error: unknown): boolean {
  return /^(?:28|42501)/.test(troubleOf(error)?.sqlState ?? '')
}

/** The server went away, was full, or is not a primary yet, which waiting may cure. */
export function isConnectionLost(error: unknown): boolean {
  const trouble = troubleOf(error)
  if (trouble === null) return false
  return ['unreachable', 'timeout', 'read_only'].includes(trouble.kind) || /^53/.test(trouble.sqlState ?? '')
}
