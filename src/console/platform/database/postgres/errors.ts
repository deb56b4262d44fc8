import pg from 'pg'
import { errorCode, StartError } from '../../../../domain/errors.ts'
import { type DatabaseTrouble, DatabaseUnavailable, findTrouble, isCommit } from '../database-unavailable.ts'

/** A statement that reached its time limit. */
export const QUERY_CANCELED = '57014'

/** Of every error of PgBouncer's own. */
const PROTOCOL_VIOLATION = '08P01'

/** By SQLSTATE or its class (PostgreSQL, appendix A); the longer one counts. What is not here is a mistake of ours. */
const TROUBLES: Readonly<Record<string, DatabaseTrouble>> = {
  '08': 'unreachable',
  '25006': 'read_only',
  '25P03': 'timeout',
  '25P04': 'timeout',
  '28': 'refused',
  '3D': 'refused',
  '40': 'busy',
  '42501': 'refused',
  '53': 'full',
  '53300': 'busy',
  '53400': 'busy',
  '55': 'busy',
  '57': 'unreachable',
  [QUERY_CANCELED]: 'timeout',
  '58': 'damaged',
  F0: 'damaged',
  XX: 'damaged',
}

/** A server that does not speak TLS, in the words of the driver, which has no code for it. */
const NO_TLS = 'The server does not support SSL connections'
/** A password that is missing, or a kind of authentication that the driver does not know. */
const NO_LOGIN = /^(?:SASL|Unknown authentication)/
/** PgBouncer has one SQLSTATE for what passes and for mistakes in the settings. These are the texts of the latter, of 1.18 to 1.24. */
const POOLER_REFUSES =
  /unsupported startup parameter|no such (?:database|user)|auth failed|authentication failed|SSL required|database "[^"]*" does not exist|statement pooling mode/i
const MALFORMED_ADDRESS = 'ERR_INVALID_URL'
/** Errors of the driver and its pool have no code. */
const TIME_OUT = /time(?:d )?-?out/i

/** Network errors without an answer; others, such as those of TLS, recur. */
const NO_RESPONSE_CODES: ReadonlySet<string> = new Set([
  'EAI_AGAIN',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
])

/** @returns the error itself if the database is not to blame for it */
export function explainConnectError(error: unknown): unknown {
  if (error instanceof DatabaseUnavailable || error instanceof StartError) return error
  // No statement of ours is to blame: an option that the server does not know, a feature that a pooler does not have.
  const kind = classifyError(error) ?? (error instanceof pg.DatabaseError ? 'refused' : null)
  return kind === null
    ? error
    : new DatabaseUnavailable(kind, errorText(error), { sqlState: sqlState(error) })
}

/**
 * Begins a statement that has a time limit of its own and may reach it. That is no error of the database, and the caller gets the
 * driver's.
 */
export const MAY_TIME_OUT = '/* may time out */'
/** @returns the error itself if the database is not to blame for it */
export function explainQueryError(error: unknown, sql: string): unknown {
  if (sql.startsWith(MAY_TIME_OUT) && errorCode(error) === QUERY_CANCELED) return error
  const kind = classifyError(error)
  return kind === null
    ? error
    : new DatabaseUnavailable(kind, errorText(error), {
        sqlState: sqlState(error),
        isOutcomeUnknown: isCommit(sql) && !isRolledBack(error),
      })
}

/** A connection that cannot be used again: after a failover its server may be read-only for good, or not answer at all. */
export function isBroken(error: unknown): boolean {
  return (
    error instanceof DatabaseUnavailable &&
    (error.kind === 'unreachable' || error.kind === 'timeout' || error.kind === 'read_only')
  )
}

/** A server that is gone, has no answer or takes no writes: its other sessions are of no use either. */
export function isServerLost(error: unknown): boolean {
  return isBroken(error) && error instanceof DatabaseUnavailable && error.sqlState !== QUERY_CANCELED
}

function classifyError(error: unknown): DatabaseTrouble | null {
  if (error instanceof pg.DatabaseError) {
    const { code = '' } = error
    if (code === PROTOCOL_VIOLATION && POOLER_REFUSES.test(error.message)) return 'refused'
    return TROUBLES[code] ?? TROUBLES[code.slice(0, 2)] ?? null
  }
  const code = errorCode(error)
  if (code === MALFORMED_ADDRESS) return 'refused'
  // What the driver does not understand is a mistake of ours.
  if (!(error instanceof Error) || error instanceof TypeError || error instanceof RangeError) return null
  if (code === null) {
    if (error.message === NO_TLS || NO_LOGIN.test(error.message)) return 'refused'
    return TIME_OUT.test(error.message) ? 'timeout' : 'unreachable'
  }
  return NO_RESPONSE_CODES.has(code) ? 'unreachable' : 'refused'
}

/** An error that the server reports as such rolls back; a statement that it cancels may have been the commit itself. */
function isRolledBack(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.severity === 'ERROR' && error.code !== QUERY_CANCELED
}

function errorText(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown reason'
  const code = errorCode(error) ?? ''
  // Some errors repeat a malformed address, with the password in it.
  if (code === MALFORMED_ADDRESS) return 'the address is malformed'
  return error.message || code || error.name
}

function sqlState(error: unknown): string | null {
  return error instanceof pg.DatabaseError ? (error.code ?? null) : null
}

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
  return /^(?:28|42501)/.test(findTrouble(error)?.sqlState ?? '')
}

/** The server went away, was full, or is not a primary yet, which waiting may cure. */
export function isConnectionLost(error: unknown): boolean {
  const trouble = findTrouble(error)
  if (trouble === null) return false
  return ['unreachable', 'timeout', 'read_only'].includes(trouble.kind) || /^53/.test(trouble.sqlState ?? '')
}
