import { Refused } from '../../../control/registry/database/backup/refused.ts'
import { DatabaseUnreachable } from '../../../control/registry/database/database.ts'
import { StartError } from '../../../domain/start-error.ts'
import { causeOf } from '../../../observability/control-logger.ts'
import { EXIT, type Host } from '../../../run/host.ts'
import { CliError } from '../../cli-error.ts'
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
    if (error instanceof Refused) throw new CliError(error.message, EXIT.rejected)
    if (error instanceof StartError) throw new CliError(error.message, EXIT.rejected)
    if (error instanceof DatabaseUnreachable) throw new CliError(error.message, EXIT.unavailable)
    throw new CliError(causeOf(error), EXIT.failure)
  } finally {
    progress.end()
  }
}

/**
 * A path is a SQLite file.
 * @param name of the argument
 */
export function databaseUrlOf(text: string, name: string): string {
  if (/^(?:sqlite:.|postgres(?:ql)?:)/s.test(text) && text !== 'sqlite::memory:') return text
  // A password may be in the rest.
  const [scheme] = /^sqlite:|^[a-z][a-z0-9+.-]*:(?=\/\/)/i.exec(text) ?? []
  if (scheme === undefined) return `sqlite:${text}`
  throw new CliError(`${name} must be sqlite:FILE, a file, or postgres://…, and not ${scheme}…`, EXIT.usage)
}
