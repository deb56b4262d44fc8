import { systemClock } from '../domain/clock.ts'
import { issuedAnswer, readAnswer } from './admin-answers.ts'
import type { KeysCommand } from './admin-client.ts'
import { NoAnswerError } from './admin-client.ts'
import { CliError } from './cli-error.ts'
import { expiryText, nameOf, scopesText } from './key-text.ts'
import { showSecret } from './show-secret.ts'
import { minuteOf } from './text.ts'

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
      throw explainNoAnswer(error, workspace)
    })
  const { key, secret } = readAnswer(command.client, issuedAnswer, answer)
  showSecret(command, answer.text, key, secret, [
    `Issued ${nameOf(key)} for workspace ${key.workspaceId}: ${scopesText(key)}; expires ${expiryText(key, nowMs)}.`,
  ])
}

/** @returns the error, with advice if the key may have been issued all the same */
export function explainNoAnswer(error: unknown, workspace: string | null): unknown {
  if (!(error instanceof NoAnswerError) || !error.mayHaveBeenProcessed) return error
  const place = workspace === null ? 'of its workspace' : `--workspace ${workspace}`
  const advice = `. A key may have been issued: check with \`postern keys list ${place}\`, and revoke it, since its secret is lost`
  return new CliError(error.message + advice, error.exitCode)
}
