import { type Command, InvalidArgumentError, Option } from 'commander'
import { PERMISSIONS } from '../../../control/access/permission.ts'
import { DatabaseUnavailableError, NoResponseError } from '../../admin/client.ts'
import { readResponse } from '../../admin/responses.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../admin/session.ts'
import { type ShownToken, tokenIssuedResponse } from '../../admin/token-responses.ts'
import { type Cli, CliError } from '../../cli.ts'
import { checkWorkspace, expiresInOption, idempotencyKeyOption } from '../../options/key-options.ts'
import { requireOutput, showSecret, undoIssue } from '../../output/show-secret.ts'
import { minuteOf, plainText } from '../../output/text.ts'
import { workspacesText } from '../../output/token-text.ts'

const DAY_SECONDS = 86_400
const DEFAULT_SECONDS = 90 * DAY_SECONDS

interface IssueOptions {
  readonly name: string
  readonly permission: readonly string[]
  readonly workspace?: readonly string[]
  /** Seconds. */
  readonly expiresIn?: number
  readonly idempotencyKey?: string
}

/** `postern tokens issue` */
export function addIssue(tokens: Command, cli: Cli): void {
  const issue = tokens
    .command('issue')
    .description('issue an admin token; its secret is printed once, alone on standard output')
    .requiredOption('--name <name>', 'the program that uses it')
    .addOption(permissionOption().makeOptionMandatory())
    .option(
      '--workspace <ids>',
      'workspaces, separated by commas; may be repeated (default: all)',
      splitWorkspaces,
    )
    .addOption(expiresInOption('lifetime of the token, such as 90d or 12h (default: 90d)'))
    .addOption(idempotencyKeyOption())
  addAccessOptions(addJsonOption(issue)).action(async (options: IssueOptions, self: Command) => {
    await issueToken(openSession(cli, self), options)
  })
}

function permissionOption(): Option {
  const description = `${PERMISSIONS.join(', ')}, separated by commas; may be repeated`
  const option = new Option('--permission <permissions>', description)
  return option.argParser((text: string, before: readonly string[] = []) => {
    const permissions = text.split(',').map(permission => permission.trim())
    const known: readonly string[] = PERMISSIONS
    if (permissions.every(permission => known.includes(permission))) {
      return [...new Set([...before, ...permissions])]
    }
    throw new InvalidArgumentError(`Permissions are ${PERMISSIONS.join(', ')}.`)
  })
}

function splitWorkspaces(text: string, before: readonly string[] = []): string[] {
  return [...before, ...text.split(',').map(workspace => checkWorkspace(workspace.trim()))]
}

async function issueToken(session: AdminSession, options: IssueOptions): Promise<void> {
  requireOutput(session.host)
  const { name, permission: permissions, workspace: workspaces, expiresIn = DEFAULT_SECONDS } = options
  // JSON leaves out what is undefined.
  const body = { name, permissions, workspaces, expiresInDays: expiresIn / DAY_SECONDS }
  const response = await session.client
    .send({ method: 'POST', path: '/tokens', body, once: options.idempotencyKey ?? true })
    .catch((error: unknown) => {
      if (error instanceof DatabaseUnavailableError && error.madeId !== null) {
        const advice = `. Revoke it with \`postern tokens revoke ${error.madeId}\``
        throw new CliError(error.message + advice, error.exitCode)
      }
      if (!(error instanceof NoResponseError) || !error.mayHaveBeenProcessed) throw error
      const advice =
        '. A token may have been issued: check with `postern tokens list`, and revoke it, since its secret is lost'
      throw new CliError(error.message + advice, error.exitCode)
    })
  const { token, secret } = readResponse(session.client, tokenIssuedResponse, response)
  const { id } = token
  const advice = `run \`postern tokens revoke ${id}\``
  await showSecret(session, response.text, {
    owner: id,
    secret,
    lines: [issuedText(token)],
    remedy: `Revoke it with \`postern tokens revoke ${id}\`, and issue another one`,
    undo: () => {
      const revoke = () => session.client.send({ method: 'POST', path: `/tokens/${id}/revoke` })
      return undoIssue(revoke, `${id} was revoked again. Issue another one once it can be written.`, advice)
    },
  })
}

function issuedText({ id, hint, name, permissions, workspaces, expiresAt }: ShownToken): string {
  const which = `${plainText(id)} (${plainText(hint)}, ${plainText(name)})`
  const where = workspaces === null ? 'in all workspaces' : `in ${workspacesText(workspaces)}`
  return `Issued ${which}: ${permissions.map(plainText).join(' ')} ${where}; expires ${minuteOf(expiresAt)} UTC.`
}
