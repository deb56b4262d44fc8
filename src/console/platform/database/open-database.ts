import { neverReloads, type OnReload } from '../../../config/reloadable.ts'
import type { Clock } from '../../../domain/clock.ts'
import { isPostgresAddress } from '../../../domain/postgres-address.ts'
import { type ControlLogger, causeOf } from '../../../observability/control-logger.ts'
import { backoffMs, type Timers } from '../jobs/timers.ts'
import { type Database, DatabaseUnreachable } from './database.ts'
import type { ReportTrouble } from './database-unavailable.ts'
import { openPostgres } from './postgres-database.ts'
import { openSqlite } from './sqlite-database.ts'

const LOG_INTERVAL_MS = 30_000

/**
 * Opens the database and migrates its schema. Error messages never repeat the URL: it may hold a password.
 * @param url `sqlite:FILE`, `sqlite::memory:` or `postgres://…`
 * @param onReload reports a new user or password for the same database
 * @param report counts errors of the open database
 * @throws DatabaseUnreachable if another attempt may succeed
 */
export async function openDatabase(
  url: string,
  onReload: OnReload<string> = neverReloads,
  report: ReportTrouble = () => {},
): Promise<Database> {
  if (isPostgresAddress(url)) return openPostgres(url, onReload, report)
  if (/^sqlite:./.test(url)) return openSqlite(url.slice('sqlite:'.length), report)
  throw new Error('database.url must be sqlite:FILE, such as sqlite:postern.db, or postgres://…')
}

/**
 * Retries without limit while the database is unreachable: exiting would only put the console through restart back-off.
 * @throws any other error, such as a wrong password, which retrying does not fix
 */
export async function waitForDatabase(
  open: () => Promise<Database>,
  parts: { clock: Clock; timers: Timers; logger: ControlLogger; random: () => number; onWaiting: () => void },
): Promise<Database> {
  let loggedAtMs = Number.NEGATIVE_INFINITY
  for (let failures = 1; ; failures++) {
    try {
      return await open()
    } catch (error) {
      if (!(error instanceof DatabaseUnreachable)) throw error
      parts.onWaiting()
      const nowMs = parts.clock.monotonicMs()
      if (nowMs - loggedAtMs >= LOG_INTERVAL_MS) {
        parts.logger.warn({ cause: causeOf(error) }, 'waiting for the database')
        loggedAtMs = nowMs
      }
      const { promise, resolve } = Promise.withResolvers<void>()
      parts.timers.after(backoffMs(failures, parts.random()), resolve)
      await promise
    }
  }
}
