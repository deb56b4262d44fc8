import { EXIT } from '../../run/host.ts'
import type { AdminSession } from '../admin/session.ts'
import { CliError } from '../cli-error.ts'

const ONCE =
  'The secret is the line on standard output. It is shown only once and stored nowhere: save it now.'

/** A new key or token. */
export interface NewSecret {
  readonly id: string
  /** Null if the response that held it was lost with its connection: the response to the retry does not hold it. */
  readonly secret: string | null
  /** What happened, for people. */
  readonly lines: readonly string[]
  /** What to do about a lost secret. */
  readonly remedy: string
}

/**
 * Prints the secret alone on standard output and everything else on standard error, so that
 * `secret=$(postern keys issue …)` is just the secret.
 * @param text the unparsed response, for `--json`
 */
export function showSecret(
  { host, json }: AdminSession,
  text: string,
  { id, secret, lines, remedy }: NewSecret,
): void {
  if (json) host.write(`${text}\n`)
  else for (const line of lines) host.complain(`${line}\n`)
  if (secret === null) {
    const message = `The connection broke before the secret of ${id} arrived, and it is shown only once. ${remedy}`
    throw new CliError(message, EXIT.failure)
  }
  if (json) return
  host.complain(`${ONCE}\n`)
  host.write(`${secret}\n`)
}

export function lostKeyRemedy(id: string): string {
  return `Replace it with \`postern keys rotate ${id} --overlap 0s\`, or revoke the key`
}
