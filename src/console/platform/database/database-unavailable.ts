/**
 * What can be wrong with a database: the label of a metric. `unreachable`: no connection, or it broke; `timeout`: no answer in time;
 * `busy`: locks or connections that others hold; `refused`: the server does not admit this console, or not to this; `full`: disk or memory;
 * `damaged`: its files cannot be read or written.
 */
export const DATABASE_TROUBLES = [
  'unreachable',
  'timeout',
  'busy',
  'refused',
  'read_only',
  'full',
  'damaged',
] as const
export type DatabaseTrouble = (typeof DATABASE_TROUBLES)[number]

/**
 * The database did not do its part, which no other statement would have cured. Mistakes of our own, such as a statement that violates
 * a constraint, stay errors of the driver.
 */
export class DatabaseUnavailable extends Error {
  readonly kind: DatabaseTrouble
  /** In the words of the driver. */
  readonly reason: string
  /** The SQLSTATE; null where the server sent none. */
  readonly sqlState: string | null
  /** True if the answer to a commit was lost: the transaction may be committed. */
  readonly isOutcomeUnknown: boolean

  /** @param reason never the error itself, which may hold the password of the connection */
  constructor(
    kind: DatabaseTrouble,
    reason: string,
    {
      sqlState = null,
      isOutcomeUnknown = false,
    }: { sqlState?: string | null; isOutcomeUnknown?: boolean } = {},
  ) {
    super(`The database is unavailable (${kind}): ${reason}`)
    this.kind = kind
    this.reason = reason
    this.sqlState = sqlState
    this.isOutcomeUnknown = isOutcomeUnknown
  }
}

/** What a change made, of which it is unknown whether it was committed. */
export interface Unconfirmed {
  readonly keyId?: string
  readonly workspaceId?: string
  readonly tokenId?: string
}

/** A change that may be committed: its answer must name what to look for. */
export class OutcomeUnknown extends Error {
  readonly about: Unconfirmed

  constructor(about: Unconfirmed, cause: unknown) {
    super('The database did not say whether a change was committed', { cause })
    this.about = about
  }
}

/** Neither the change nor its audit entry was confirmed: both are one transaction. */
export class AuditWriteError extends Error {
  constructor(cause: unknown) {
    super('A change and its audit entry could not be written', { cause })
  }

  static of(error: unknown): AuditWriteError {
    return error instanceof AuditWriteError ? error : new AuditWriteError(error)
  }
}

/** Runs a change. @throws OutcomeUnknown, with what to look for, if it may be committed all the same */
export async function runChange<Result>(about: Unconfirmed, change: () => Promise<Result>): Promise<Result> {
  try {
    return await change()
  } catch (error) {
    throw findTrouble(error)?.isOutcomeUnknown === true ? new OutcomeUnknown(about, error) : error
  }
}

/** Counts an error of the database. */
export type ReportTrouble = (kind: DatabaseTrouble) => void

/** @returns what is wrong with the database, if that is the error or its cause */
export function findTrouble(error: unknown): DatabaseUnavailable | null {
  if (error instanceof DatabaseUnavailable) return error
  return error instanceof Error && error.cause !== undefined ? findTrouble(error.cause) : null
}

/** Whether the statement is one whose answer says that the transaction is committed. */
export function isCommit(sql: string): boolean {
  return sql === 'commit'
}

/** Nothing happened, or nothing that was committed, and another session may do it. */
export function mayRunAgain(error: unknown): boolean {
  return (
    error instanceof DatabaseUnavailable &&
    (error.kind === 'unreachable' || error.kind === 'read_only') &&
    !error.isOutcomeUnknown
  )
}
