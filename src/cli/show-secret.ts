import { EXIT } from '../run/host.ts'
import type { ShownKey } from './admin-answers.ts'
import { CliError } from './cli-error.ts'
import type { KeysCommand } from './keys-command.ts'

const ONCE =
  'Its secret is the line on standard output: shown this once and kept nowhere. Store it before you go on.'

/**
 * The secret, alone on standard output; what is to be said of it goes to the other stream, so that
 * `secret=$(postern keys issue …)` is just the secret.
 * @param text the answer as it came, for `--json`
 * @param lines what happened, for people
 */
export function showSecret(
  { host, json }: KeysCommand,
  text: string,
  key: ShownKey,
  secret: string | null,
  lines: readonly string[],
): void {
  if (json) host.write(`${text}\n`)
  else for (const line of lines) host.complain(`${line}\n`)
  if (secret === null) throw lost(key)
  if (json) return
  host.complain(`${ONCE}\n`)
  host.write(`${secret}\n`)
}

/** The first answer had it, and was lost with its connection; the answer to the retry has not. */
function lost({ id }: ShownKey): CliError {
  const message = `The connection broke before the secret of ${id} arrived, and it is shown only once: nobody has it. Get another with \`postern keys rotate ${id} --overlap 0s\`, or revoke it`
  return new CliError(message, EXIT.failure)
}
