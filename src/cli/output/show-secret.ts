import { EXIT } from '../../run/host.ts'
import type { ShownKey } from '../admin/answers.ts'
import type { AdminSession } from '../admin/session.ts'
import { CliError } from '../cli-error.ts'

const ONCE =
  'The secret is the line on standard output. It is shown only once and stored nowhere: save it now.'

/**
 * Prints the secret alone on standard output and everything else on standard error, so that
 * `secret=$(postern keys issue …)` is just the secret.
 * @param text the unparsed response, for `--json`
 * @param lines what happened, for people
 */
export function showSecret(
  { host, json }: AdminSession,
  text: string,
  key: ShownKey,
  secret: string | null,
  lines: readonly string[],
): void {
  if (json) host.write(`${text}\n`)
  else for (const line of lines) host.complain(`${line}\n`)
  if (secret === null) throw lostSecretError(key)
  if (json) return
  host.complain(`${ONCE}\n`)
  host.write(`${secret}\n`)
}

/** The first response held the secret and was lost with its connection; the response to the retry does not hold it. */
function lostSecretError({ id }: ShownKey): CliError {
  const message = `The connection broke before the secret of ${id} arrived, and it is shown only once. Replace it with \`postern keys rotate ${id} --overlap 0s\`, or revoke the key`
  return new CliError(message, EXIT.failure)
}
