import { systemClock } from '../domain/clock.ts'
import { issuedAnswer, readAnswer } from './admin-answers.ts'
import { NoAnswerError } from './admin-client.ts'
import { CliError } from './cli-error.ts'
import { expiryText, nameOf, scopesText } from './key-text.ts'
import type { KeysCommand } from './keys-command.ts'
import { showSecret } from './show-secret.ts'
import { minuteOf } from './times.ts'

const DAY_SECONDS = 86_400

export interface IssueOptions {
  readonly workspace: string
  readonly scope: readonly string[]
  readonly name?: string
  /** Seconds. */
  readonly expiresIn?: number
}

/** `postern keys issue` */
export async function issueKey(command: KeysCommand, options: IssueOptions): Promise<void> {
  const nowMs = systemClock.wallMs()
  const { workspace, scope, name = `cli ${minuteOf(new Date(nowMs).toISOString())}`, expiresIn } = options
  const lifetime = expiresIn === undefined ? {} : { expiresInDays: expiresIn / DAY_SECONDS }
  const path = `/workspaces/${encodeURIComponent(workspace)}/keys`
  const body = { name, scopes: scope, ...lifetime }
  const answer = await command.client
    .ask({ method: 'POST', path, body, once: true })
    .catch((error: unknown) => {
      throw explainSilence(error, workspace)
    })
  const { key, secret } = readAnswer(command.client, issuedAnswer, answer)
  showSecret(command, answer.text, key, secret, [
    `Issued ${nameOf(key)} for workspace ${key.workspaceId}: ${scopesText(key)}; expires ${expiryText(key, nowMs)}.`,
  ])
}

/** @returns the error, with what to do where nobody knows whether there is a new key now */
export function explainSilence(error: unknown, workspace: string | null): unknown {
  if (!(error instanceof NoAnswerError) || !error.mayHaveHappened) return error
  const place = workspace === null ? 'of its workspace' : `--workspace ${workspace}`
  const advice = `. Whether there is a new key is not known: look with \`postern keys list ${place}\`, and revoke one whose secret nobody has`
  return new CliError(error.message + advice, error.exitCode)
}
