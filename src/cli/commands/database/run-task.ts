import { formats } from '../../../config/formats.ts'
import { DatabaseForbidden, DatabaseUnreachable } from '../../../control/registry/database/database.ts'
import {
  isConnectionLost,
  isForbidden,
} from '../../../control/registry/database/engines/rejected-statement.ts'
import { StartError } from '../../../domain/start-error.ts'
import { causeOf } from '../../../observability/control-logger.ts'
import { EXIT, type Host } from '../../../run/host.ts'
import { CliError } from '../../cli.ts'
import { createProgress, type Progress } from '../../output/progress.ts'

/** Runs a task on a database, with progress on standard error. @throws CliError if it was not done */
export async function runTask<Result>(
  host: Host,
  unit: string,
  task: (progress: Progress) => Promise<Result>,
): Promise<Result> {
  const progress = createProgress(host.streams.errors, false, unit)
  try {
    return await task(progress)
  } catch (error) {
    if (error instanceof CliError) throw error
    throw new CliError(describe(error), exitCodeOf(error))
  } finally {
    progress.end()
  }
}

function exitCodeOf(error: unknown): number {
  if (error instanceof DatabaseUnreachable || isConnectionLost(error)) return EXIT.unavailable
  if (error instanceof DatabaseForbidden || isForbidden(error)) return EXIT.forbidden
  return error instanceof StartError ? EXIT.rejected : EXIT.failure
}

/** With the cause, in one line. */
function describe(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? `: ${causeOf(error.cause)}` : ''
  return `${causeOf(error)}${cause}`
}

/**
 * A path is a SQLite file.
 * @param name of the argument
 */
export function databaseUrlOf(text: string, name: string): string {
  const [scheme] = /^(?:sqlite|postgres|postgresql):|^[a-z][a-z0-9+.-]*:(?=\/\/)/i.exec(text) ?? []
  if (scheme === undefined) return `sqlite:${text}`
  const format = formats['database-url']
  if (format?.accepts(text) === true && text !== 'sqlite::memory:') return text
  const problem = format?.problemOf?.(text) ?? null
  if (problem !== null) throw new CliError(`${name} ${problem}`, EXIT.usage)
  // A password may be in the rest.
  throw new CliError(
    `${name} must be sqlite:FILE, a file, or postgres://USER@HOST/DATABASE, which ${scheme}… is not`,
    EXIT.usage,
  )
}
