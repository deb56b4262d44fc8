import type { Kysely, Transaction } from 'kysely'
import { SettingError, StartError } from '../../../domain/errors.ts'
import type { Tables } from './tables.ts'

export type Dialect = 'sqlite' | 'postgres'

/** What a transaction does. */
export type Work<Result> = (tx: Transaction<Tables>) => Promise<Result>
export type RunWork = <Result>(work: Work<Result>) => Promise<Result>

/** Runs transactions. */
export interface ChangeWriter {
  readonly run: RunWork
  /** The same for announcing, which does not wait for changes. */
  readonly announce: RunWork
  /**
   * The same for work that has time. On SQLite, where transactions run one after another, the next one does it as well, so that a
   * burst of changes costs one disk sync per change, not two.
   */
  readonly announceWithNext: (work: Work<void>) => Promise<void>
}

/** Reads have their own connections: lookups and heartbeats must not queue behind a burst of changes. */
export interface Database {
  readonly dialect: Dialect
  /** Whether parts of texts can be searched by an index. */
  readonly hasTextIndex: boolean
  readonly writer: Kysely<Tables>
  /** Transactions of every capability. */
  readonly changes: ChangeWriter
  readonly reader: Kysely<Tables>
  /** For heartbeats and for deleting what is announced: under a load of changes and lookups, gateways would have no heartbeats. */
  readonly announcing: Kysely<Tables>
  close(): Promise<void>
}

/** How an error names the database of the settings; a command line has arguments instead. */
export const DATABASE_SETTING = 'database.url'

/** The server refuses the user or the password, or a right of the user. */
export class DatabaseForbidden extends SettingError {}

/** The database does not answer, or not yet; opening it again may succeed. */
export class DatabaseUnreachable extends Error {}

/** A backup, restore or copy that cannot be done. Nothing was changed; the message says what to do. */
export class Refused extends StartError {}

export interface ProgressDisplay {
  /** @param what is counted, in words that stay true if the task is refused later */
  show(done: number, total: number, what: string): void
}
