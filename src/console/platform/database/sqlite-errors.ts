import { type DatabaseTrouble, DatabaseUnavailable, isCommit } from './database-unavailable.ts'

/** By primary result code (https://www.sqlite.org/rescode.html). What is not here is a mistake of ours. */
const TROUBLES: ReadonlyMap<number, DatabaseTrouble> = new Map([
  /* PERM */ [3, 'refused'],
  /* BUSY */ [5, 'busy'],
  /* LOCKED */ [6, 'busy'],
  /* NOMEM */ [7, 'full'],
  /* READONLY */ [8, 'read_only'],
  /* IOERR */ [10, 'damaged'],
  /* CORRUPT */ [11, 'damaged'],
  /* FULL */ [13, 'full'],
  /* CANTOPEN */ [14, 'damaged'],
  /* PROTOCOL */ [15, 'busy'],
  /* NOLFS */ [22, 'full'],
  /* AUTH */ [23, 'refused'],
  /* NOTADB */ [26, 'damaged'],
])
const IOERR = 10

/** @returns the error itself if the database is not to blame for it */
export function explainSqliteError(error: unknown, sql: string): unknown {
  const code = primaryCodeOf(error)
  const kind = TROUBLES.get(code)
  if (kind === undefined || !(error instanceof Error)) return error
  // Any other failure leaves the transaction open; after one of the disk, the commit may be found in the log all the same.
  return new DatabaseUnavailable(kind, error.message, {
    isOutcomeUnknown: isCommit(sql) && code === IOERR,
  })
}

/** Extended codes have the primary one in their lowest byte. */
function primaryCodeOf(error: unknown): number {
  return error instanceof Error && 'errcode' in error && typeof error.errcode === 'number'
    ? error.errcode & 0xff
    : 0
}
