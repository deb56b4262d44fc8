import type { Kysely } from 'kysely'
import { SettingError, StartError } from '../../../domain/start-error.ts'
import type { Tables } from './tables.ts'

export type Dialect = 'sqlite' | 'postgres'

/** Reads have their own connections: lookups and heartbeats must not queue behind a burst of changes. */
export interface Database {
  readonly dialect: Dialect
  /** Whether parts of texts can be searched by an index. */
  readonly hasTextIndex: boolean
  readonly writer: Kysely<Tables>
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
  show(done: number, total: number): void
}
