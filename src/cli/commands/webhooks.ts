import type { Command } from 'commander'
import { type Static, Type } from 'typebox'
import { webhook } from '../../console/platform/http/items.ts'
import { EXIT } from '../../run/host.ts'
import { type Cli, CliError, type Define, minuteText, plainText } from '../cli.ts'
import { nullable, readResponse } from '../client/client.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../client/session.ts'
import { checkWorkspace } from '../options/values.ts'
import { requireOutput, showSecret, undoIssue } from '../output/show-secret.ts'
import { requirePrompt, requireYes } from '../output/terminal.ts'

const shown = Type.Object({ webhook: nullable(webhook) })
const set = Type.Object({ webhook, secret: Type.String() })
const removed = Type.Object({ removed: Type.Boolean() })
const tested = Type.Object({ url: Type.String(), sent: Type.Boolean() })

interface Subcommand {
  readonly name: string
  readonly description: string
  readonly run: Run
}

const SUBCOMMANDS: readonly Subcommand[] = [
  { name: 'show', description: 'show the webhook of a workspace', run: show },
  { name: 'test', description: 'send a test to the webhook, at most one a minute', run: test },
]

/** `postern webhooks …`: webhooks of workspaces. */
export const define: Define = (webhooks, cli) => {
  for (const { name, description, run } of SUBCOMMANDS) {
    addTo(cli, webhooks.command(name).description(description), run)
  }
  const removal = webhooks.command('remove').description('remove the webhook; events that wait are not sent')
  addTo(cli, removal.option('--yes', 'do not ask for confirmation'), remove)
  const text = 'set the address, with a new secret, printed once, alone on standard output'
  const command = webhooks.command('set').description(text).argument('<address>', 'an https: address')
  addTo(cli, command, setAddress)
}

interface Given {
  readonly address: string
  readonly yes: boolean
}

type Run = (session: AdminSession, path: string, workspace: string, given: Given) => Promise<void>

function addTo(cli: Cli, command: Command, run: Run): void {
  command.requiredOption('--workspace <id>', 'workspace of the webhook')
  addAccessOptions(addJsonOption(command)).action(async (...given: unknown[]) => {
    // Commander passes arguments, options and the command, in this order.
    const self = given.at(-1) as Command
    const { workspace: text, yes = false } = self.opts<{ workspace: string; yes?: boolean }>()
    const workspace = checkWorkspace(text)
    const [address = ''] = self.args
    await run(openSession(cli, self), `/workspaces/${workspace}/webhook`, workspace, { address, yes })
  })
}

async function show({ client, host, json }: AdminSession, path: string, workspace: string): Promise<void> {
  const response = await client.send({ method: 'GET', path })
  const { webhook: found } = readResponse(client, shown, response)
  if (json) return host.write(`${response.text}\n`)
  host.write(found === null ? `Workspace ${workspace} has no webhook.\n` : `${describeWebhook(found)}\n`)
}

function describeWebhook({ url, createdAt, createdBy }: Static<typeof webhook>): string {
  return `${plainText(url)}, set ${minuteText(createdAt)} UTC by ${plainText(createdBy)}`
}

async function setAddress(
  session: AdminSession,
  path: string,
  workspace: string,
  { address }: Given,
): Promise<void> {
  const { client } = session
  requireOutput(session.host)
  const { webhook: before } = readResponse(client, shown, await client.send({ method: 'GET', path }))
  const response = await client.send({ method: 'POST', path, body: { url: address } })
  const { secret } = readResponse(client, set, response)
  const again = 'Set the address once it can be written: each time makes a new secret'
  await showSecret(session, response.text, {
    owner: `the webhook of workspace ${workspace}`,
    secret,
    isStored: true,
    lines: [`Set the webhook of workspace ${workspace}.`],
    remedy: again,
    undo: async () => {
      // A removal would also drop the events that wait for the earlier address.
      if (before !== null) {
        return `The address is set, and the earlier secret signs no more: receivers will reject events. ${again} soon.`
      }
      const removal = `run \`postern webhooks remove --workspace ${workspace}\``
      const undone = `The webhook was removed again. ${again}.`
      return undoIssue(() => client.send({ method: 'POST', path: `${path}/remove` }), undone, removal)
    },
  })
}

async function remove(
  { client, host, json }: AdminSession,
  path: string,
  workspace: string,
  { yes }: Given,
): Promise<void> {
  if (!yes) {
    requirePrompt(host.streams, 'remove a webhook')
    host.writeError('Its secret is lost, and events that wait are not sent.\n')
    await requireYes(host.streams, `Remove the webhook of workspace ${workspace}? [y/N] `, 'removed')
  }
  const response = await client.send({ method: 'POST', path: `${path}/remove` })
  const { removed: was } = readResponse(client, removed, response)
  if (json) return host.write(`${response.text}\n`)
  const nothing = response.isRepeated
    ? `Workspace ${workspace} has no webhook now: the first of two requests, whose connection broke, may have removed it.`
    : 'Nothing to remove.'
  host.write(`${was ? `Removed the webhook of workspace ${workspace}.` : nothing}\n`)
}

async function test({ client, host, json }: AdminSession, path: string): Promise<void> {
  const response = await client.send({ method: 'POST', path: `${path}/test` })
  const { url, sent } = readResponse(client, tested, response)
  if (!sent) {
    throw new CliError(
      `No second test is sent to ${plainText(url)}: one was in this minute of the console's clock, and there is one a minute at most. Try again after the next full minute`,
      EXIT.rejected,
    )
  }
  host.write(json ? `${response.text}\n` : `A test is sent to ${plainText(url)}.\n`)
}
