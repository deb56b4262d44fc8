import { EXIT, findOutputProblem, type Host, outputErrorCode, writeOnce } from '../../run/host.ts'
import { CliError } from '../cli.ts'
import type { AdminSession } from '../client/session.ts'

const ONCE = 'The secret is the line on standard output. It is shown only once'

/** A new secret of a key, a token or a webhook. */
interface NewSecret {
  /** What has the secret, for a sentence. */
  readonly owner: string
  /** Null if the response that held it was lost with its connection: the response to the retry does not hold it. */
  readonly secret: string | null
  /** What happened, for people. */
  readonly lines: readonly string[]
  /** False if the console keeps only a digest of it; true if it signs with the secret itself. */
  readonly isStored?: boolean
  /** What to do about a secret that was lost on the way. */
  readonly remedy: string
  /** Revokes what cannot be shown. @returns the state that is left, and what to do, in whole sentences */
  readonly undo: () => Promise<string>
}

/** Call it before anything is issued. @throws CliError if the secret would certainly be lost */
export function requireOutput({ streams: { output } }: Host): void {
  const problem = findOutputProblem(output)
  if (problem === null) return
  const message = `Standard output ${problem}, where the new secret would be lost: nothing was changed`
  throw new CliError(message, EXIT.failure)
}

/**
 * Prints the secret alone on standard output and everything else on standard error, so that
 * `secret=$(postern keys issue …)` is just the secret. A secret that cannot be printed is revoked again.
 * @param text the unparsed response, for `--json`
 */
export async function showSecret({ host, json }: AdminSession, text: string, made: NewSecret): Promise<void> {
  const { owner, secret, lines, remedy } = made
  if (!json) for (const line of lines) host.writeError(`${line}\n`)
  if (secret === null) {
    if (json) host.write(`${text}\n`)
    const message = `The connection broke before the secret of ${owner} arrived, and it is shown only once. ${remedy}`
    throw new CliError(message, EXIT.failure)
  }
  try {
    await writeOnce(host.streams.output, `${json ? text : secret}\n`)
  } catch (error) {
    const why = `The secret of ${owner} could not be written to standard output (${outputErrorCode(error)})`
    throw new CliError(`${why}. ${await made.undo()}`, EXIT.failure)
  }
  if (!json) host.writeError(`${ONCE}${made.isStored === true ? '' : ' and stored nowhere'}: save it now.\n`)
}

/**
 * @param revoke asks the console
 * @param state what is true once it is done
 * @param advice the command to repeat by hand where it fails
 */
export async function undoIssue(
  revoke: () => Promise<unknown>,
  state: string,
  advice: string,
): Promise<string> {
  try {
    await revoke()
    return state
  } catch (error) {
    if (!(error instanceof CliError)) throw error
    return `Undoing that failed too, so ${advice}. ${error.message}`
  }
}
