import type { Command } from 'commander'
import { systemClock } from '../../../domain/clock.ts'
import { type AdminClient, DatabaseUnavailableError, NoResponseError } from '../../admin/client.ts'
import { issuedResponse, readResponse } from '../../admin/responses.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../admin/session.ts'
import { type Cli, CliError } from '../../cli.ts'
import {
  allowCidrOption,
  checkWorkspace,
  expiresInOption,
  idempotencyKeyOption,
  scopeOption,
} from '../../options/key-options.ts'
import { issuedText } from '../../output/key-text.ts'
import { lostKeyRemedy, requireOutput, showSecret, undoIssue } from '../../output/show-secret.ts'
import { minuteOf } from '../../output/text.ts'

const DAY_SECONDS = 86_400

interface IssueOptions {
  readonly workspace: string
  readonly scope: readonly string[]
  readonly name?: string
  readonly description?: string
  readonly allowCidr?: readonly string[]
  /** Seconds. */
  readonly expiresIn?: number
  readonly idempotencyKey?: string
}

/** `postern keys issue` */
export function addIssue(keys: Command, cli: Cli): void {
  const issue = keys
    .command('issue')
    .description('issue a new key; its secret is printed once, alone on standard output')
    .requiredOption('--workspace <id>', 'workspace of the key')
    .addOption(scopeOption().makeOptionMandatory())
    .option('--name <name>', 'name of the key (default: "cli" and the time)')
    .option('--description <text>', 'what the key is for, in one line')
    .addOption(allowCidrOption())
    .addOption(expiresInOption())
    .addOption(idempotencyKeyOption())
  addAccessOptions(addJsonOption(issue)).action(async (options: IssueOptions, self: Command) => {
    const workspace = checkWorkspace(options.workspace)
    await issueKey(openSession(cli, self), { ...options, workspace })
  })
}

async function issueKey(session: AdminSession, options: IssueOptions): Promise<void> {
  requireOutput(session.host)
  const nowMs = systemClock.wallMs()
  const { workspace, scope, name = `cli ${minuteOf(new Date(nowMs).toISOString())}` } = options
  const { description, allowCidr: allowedCidrs, expiresIn } = options
  const lifetime = expiresIn === undefined ? {} : { expiresInDays: expiresIn / DAY_SECONDS }
  const path = `/workspaces/${encodeURIComponent(workspace)}/keys`
  // JSON leaves out what is undefined.
  const body = { name, scopes: scope, description, allowedCidrs, ...lifetime }
  const response = await session.client
    .send({ method: 'POST', path, body, once: options.idempotencyKey ?? true })
    .catch((error: unknown) => {
      throw explainNoResponse(error, workspace)
    })
  const { key, secret } = readResponse(session.client, issuedResponse, response)
  const { id } = key
  const undo = () => revokeUnseen(session.client, id, 'Issue another one once it can be written.')
  await showSecret(session, response.text, {
    owner: id,
    secret,
    lines: [issuedText(key, nowMs)],
    remedy: lostKeyRemedy(id),
    undo,
  })
}

/** Revokes a key whose secret could not be shown. @returns what was done, and the advice */
export function revokeUnseen(client: AdminClient, id: string, advice: string): Promise<string> {
  const revoke = () => client.send({ method: 'POST', path: `/keys/${id}/revoke` })
  return undoIssue(revoke, `${id} was revoked again. ${advice}`, `run \`postern keys revoke ${id}\``)
}

/** @returns the error, with advice if the key may have been issued all the same */
export function explainNoResponse(error: unknown, workspace: string | null): unknown {
  if (error instanceof DatabaseUnavailableError && error.madeId !== null) {
    const advice = `. Look at it with \`postern keys show ${error.madeId}\`, and revoke it with \`postern keys revoke ${error.madeId}\``
    return new CliError(error.message + advice, error.exitCode)
  }
  if (!(error instanceof NoResponseError) || !error.mayHaveBeenProcessed) return error
  const place = workspace === null ? 'of its workspace' : `--workspace ${workspace}`
  const advice = `. A key may have been issued: check with \`postern keys list ${place}\`, and revoke it, since its secret is lost`
  return new CliError(error.message + advice, error.exitCode)
}
