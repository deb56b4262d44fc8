import { type Command, InvalidArgumentError, Option } from 'commander'
import { type Static, Type } from 'typebox'
import { PERMISSIONS } from '../../console/platform/access/principal.ts'
import { caller, token as describedToken } from '../../console/platform/http/items.ts'
import { systemClock } from '../../domain/clock.ts'
import { relativeTime } from '../../domain/form/instant.ts'
import { plainPasted } from '../../domain/form/text.ts'
import { isId } from '../../domain/id-form.ts'
import { type Cli, type Define, lastUseText, minuteText, plainText, usageError } from '../cli.ts'
import { nullable, paged, readPages, readResponse } from '../client/client.ts'
import { adviseIfMade } from '../client/failures.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../client/session.ts'
import { checkWorkspace, DAY_SECONDS, expiresInOption, idempotencyKeyOption } from '../options/values.ts'
import { addListOptions, type Column, chooseOutputFormat, type ListView, printList } from '../output/list.ts'
import { requireOutput, showSecret, undoIssue } from '../output/show-secret.ts'
import {
  type Colour,
  factLines,
  isAttended,
  paintFor,
  requirePrompt,
  requireYes,
} from '../output/terminal.ts'

const DEFAULT_SECONDS = 90 * DAY_SECONDS

/** A newer console may know more permissions. */
const permissions = Type.Array(Type.String())
const token = Type.Object({ ...describedToken.properties, permissions })
type ShownToken = Static<typeof token>

/** The secret is null in the response to a retry. */
const tokenIssuedResponse = Type.Object({ token, secret: nullable(Type.String()) })
const tokenResponse = Type.Object({ token })
const tokensResponse = Type.Object({ tokens: Type.Array(token), ...paged.properties })

const whoamiResponse = Type.Object({ ...caller.properties, kind: Type.String(), permissions })

/** `postern tokens …`: admin tokens of programs. */
export const defineTokens: Define = (tokens, cli) => {
  for (const add of [addIssue, addList, addRevoke]) add(tokens, cli)
}

interface IssueOptions {
  readonly name: string
  readonly permission: readonly string[]
  readonly workspace?: readonly string[]
  /** Seconds. */
  readonly expiresIn?: number
  readonly idempotencyKey?: string
}

/** `postern tokens issue` */
function addIssue(tokens: Command, cli: Cli): void {
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
      throw adviseIfMade(
        error,
        id => `Revoke it with \`postern tokens revoke ${id}\``,
        'A token may have been issued: check with `postern tokens list`, and revoke it, since its secret is lost',
      )
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
  return `Issued ${which}: ${permissions.map(plainText).join(' ')} ${where}; expires ${minuteText(expiresAt)} UTC.`
}

const STATE_COLOURS = { active: 'green', expired: 'gray', revoked: 'red' } as const

/** Tokens as `tokens list` shows them. Ids are never cut: people copy them. */
const COLUMNS: readonly Column<ShownToken>[] = [
  { title: 'ID', text: ({ id }) => plainText(id) },
  { title: 'HINT', text: ({ hint }) => plainText(hint) },
  { title: 'NAME', text: ({ name }) => plainText(name), atLeast: 12, leaves: 6 },
  {
    title: 'PERMISSIONS',
    text: ({ permissions }) => permissions.map(plainText).join(' '),
    atLeast: 12,
    leaves: 3,
  },
  { title: 'WORKSPACES', text: ({ workspaces }) => workspacesText(workspaces), atLeast: 10, leaves: 2 },
  { title: 'STATE', text: tokenState, colour: stateColour },
  {
    title: 'CREATED',
    text: ({ createdAt }) => minuteText(createdAt).slice(0, 10),
    leaves: 1,
    leavesEarly: true,
  },
  { title: 'CREATED BY', text: ({ createdBy }) => plainText(createdBy), wideOnly: true },
  { title: 'EXPIRES', text: expiryText, leaves: 5 },
  { title: 'LAST USED', text: lastUseText, leaves: 4 },
]

const VIEW: ListView<ShownToken> = {
  name: 'tokens',
  columns: COLUMNS,
  id: ({ id }) => id,
  whenEmpty: 'There are no admin tokens that you may see: `postern tokens issue` issues one.',
}

/** `postern tokens list`: all pages. */
function addList(tokens: Command, cli: Cli): void {
  const list = tokens.command('list').description('list admin tokens, newest first')
  addAccessOptions(addListOptions(list)).action(async (_, self: Command) => {
    const { client, host } = openSession(cli, self)
    const pages = readPages(client, { path: '/tokens' }, tokensResponse, page => page.tokens)
    await printList(host, chooseOutputFormat(self), VIEW, pages)
  })
}

/** Null is all. */
function workspacesText(workspaces: readonly string[] | null): string {
  return workspaces === null ? 'all' : workspaces.map(plainText).join(' ')
}

function tokenState({ revokedAt, expiresAt }: ShownToken, nowMs: number): keyof typeof STATE_COLOURS {
  if (revokedAt !== null) return 'revoked'
  return Date.parse(expiresAt) <= nowMs ? 'expired' : 'active'
}

function stateColour(token: ShownToken, nowMs: number): Colour {
  return STATE_COLOURS[tokenState(token, nowMs)]
}

function expiryText({ expiresAt, revokedAt }: ShownToken, nowMs: number): string {
  return revokedAt === null ? relativeTime(Date.parse(expiresAt), nowMs) : '-'
}

/** `postern tokens revoke` */
function addRevoke(tokens: Command, cli: Cli): void {
  const revoke = tokens
    .command('revoke')
    .description('revoke an admin token, for good')
    .argument('<id>', 'the token’s id (tok_…)')
    .option('--yes', 'do not ask for confirmation')
  addAccessOptions(addJsonOption(revoke)).action(
    async (text: string, { yes }: { yes?: boolean }, self: Command) => {
      const id = checkTokenId(text)
      const session = openSession(cli, self)
      if (yes !== true && isAttended(cli.host)) {
        requirePrompt(session.host.streams, 'revoke a token')
        await requireYes(session.host.streams, `Revoke ${id}, for good? [y/N] `, 'revoked')
      }
      await revokeToken(session, id)
    },
  )
}

async function revokeToken({ client, host, json }: AdminSession, id: string): Promise<void> {
  const response = await client.send({ method: 'POST', path: `/tokens/${id}/revoke` })
  const { token } = readResponse(client, tokenResponse, response)
  if (json) return host.write(`${response.text}\n`)
  const which = `${plainText(token.id)} (${plainText(token.hint)}, ${plainText(token.name)})`
  host.write(
    token.revokedAt === null
      ? `Nothing to revoke: ${which} had expired.\n`
      : `Revoked ${which} at ${minuteText(token.revokedAt)} UTC.\n`,
  )
}

/** A token pasted here by mistake must not reach an error message, a URL or the console's log. */
function checkTokenId(text: string): string {
  const id = plainPasted(text)
  if (isId('tok', id)) return id
  const message =
    'This is not the id of a token: token ids are tok_ followed by 26 digits and capital letters. `postern tokens list` shows them'
  throw usageError(message)
}

/** `postern whoami`: prints the console, the name of the token, and its rights. */
export const defineWhoami: Define = (whoami, cli) => {
  addAccessOptions(addJsonOption(whoami)).action(async (_, self: Command) => {
    await showCaller(openSession(cli, self))
  })
}

async function showCaller({ client, host, json }: AdminSession): Promise<void> {
  const response = await client.send({ method: 'GET', path: '/whoami' })
  const { actor, name, permissions, workspaces, expiresAt } = readResponse(client, whoamiResponse, response)
  if (json) return host.write(`${response.text}\n`)
  const paint = paintFor(host.streams.output, host)
  const facts = [
    ['Console', client.url],
    ['Actor', plainText(actor)],
    ['Name', name === null ? null : plainText(name)],
    ['Permissions', permissions.map(plainText).join(' ')],
    ['Workspaces', workspacesText(workspaces)],
    ['Expires', expiresAt === null ? 'never' : describeExpiry(expiresAt, systemClock.wallMs())],
  ] as const
  host.write(factLines(facts, paint))
}

function describeExpiry(expiresAt: string, nowMs: number): string {
  return `${minuteText(expiresAt)} UTC, ${relativeTime(Date.parse(expiresAt), nowMs)}`
}
