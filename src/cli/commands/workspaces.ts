import type { Command } from 'commander'
import { type Static, Type } from 'typebox'
import { workspace } from '../../console/platform/http/items.ts'
import { plainPasted } from '../../domain/form/text.ts'
import { type Cli, type Define, keyCount, lastUseText, plainText, usageError } from '../cli.ts'
import {
  callUntilDone,
  changedPart,
  count,
  nullable,
  paged,
  readPages,
  readResponse,
} from '../client/client.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../client/session.ts'
import { checkWorkspace } from '../options/values.ts'
import { printOutcome, progressLines } from '../output/key-text.ts'
import { addListOptions, type Column, chooseOutputFormat, type ListView, printList } from '../output/list.ts'
import { requirePrompt, requireYes } from '../output/terminal.ts'

type ShownWorkspace = Static<typeof workspace>
const workspacesResponse = Type.Object({ workspaces: Type.Array(workspace), ...paged.properties })
const planResponse = Type.Object({ plan: nullable(Type.String()) })
const planChangedResponse = Type.Object({
  ...planResponse.properties,
  changed: count,
  ...changedPart.properties,
})

const COUNTS = ['active', 'retiring', 'suspended', 'expired', 'revoked'] as const

const VIEW: ListView<ShownWorkspace> = {
  name: 'workspaces',
  columns: [
    { title: 'WORKSPACE', text: ({ workspaceId }) => plainText(workspaceId) },
    ...COUNTS.map(
      (state): Column<ShownWorkspace> => ({
        title: state.toUpperCase(),
        text: ({ keys }) => String(keys[state]),
      }),
    ),
    { title: 'LAST USED', text: lastUseText, leaves: 1 },
  ],
  id: ({ workspaceId }) => workspaceId,
  whenEmpty: 'You can see no workspaces with keys.',
}

/** `postern workspaces …` */
export const define: Define = (workspaces, cli) => {
  addList(workspaces, cli)
  addPlan(workspaces, cli)
}

/** `postern workspaces list`: all pages. */
function addList(workspaces: Command, cli: Cli): void {
  const list = workspaces
    .command('list')
    .description('list workspaces that have keys, with their keys by state')
    .option('--search <text>', 'workspaces with this text in their id', plainPasted)
  addAccessOptions(addListOptions(list)).action(async ({ search }: { search?: string }, self: Command) => {
    const { client, host } = openSession(cli, self)
    const query = search === undefined ? {} : { q: search }
    const pages = readPages(
      client,
      { path: '/workspaces', query },
      workspacesResponse,
      page => page.workspaces,
    )
    await printList(host, chooseOutputFormat(self), VIEW, pages)
  })
}

interface PlanOptions {
  readonly set?: string
  readonly clear?: boolean
  readonly yes?: boolean
}

/** `postern workspaces plan`: shows the plan of a workspace, or changes it with those of its keys. */
function addPlan(workspaces: Command, cli: Cli): void {
  const plan = workspaces
    .command('plan')
    .description('show the plan of a workspace, or give it and all its keys another one')
    .argument('<id>', 'the workspace’s id')
    .option('--set <name>', 'the plan of its keys, and of those issued later')
    .option('--clear', 'no plan')
    .option('--yes', 'do not ask for confirmation')
  addAccessOptions(addJsonOption(plan)).action(async (text: string, options: PlanOptions, self: Command) => {
    const workspace = checkWorkspace(text, '<id>')
    const { set, clear = false, yes = false } = options
    if (set !== undefined && clear) throw usageError('--set and --clear exclude each other')
    const session = openSession(cli, self)
    if (set === undefined && !clear) return showPlan(session, workspace)
    if (!yes) await confirmPlan(session, workspace, set ?? null)
    await changePlan(session, workspace, set ?? null)
  })
}

function planPath(workspace: string): string {
  return `/workspaces/${encodeURIComponent(workspace)}/plan`
}

function planText(plan: string | null): string {
  return plan === null ? 'no plan' : `the plan ${plainText(plan)}`
}

async function showPlan({ client, host, json }: AdminSession, workspace: string): Promise<void> {
  const response = await client.send({ method: 'GET', path: planPath(workspace) })
  const { plan } = readResponse(client, planResponse, response)
  host.write(json ? `${response.text}\n` : `Workspace ${workspace} has ${planText(plan)}.\n`)
}

async function confirmPlan({ host }: AdminSession, workspace: string, plan: string | null): Promise<void> {
  requirePrompt(host.streams, 'change the plan')
  host.writeError(
    `All keys of workspace ${workspace} would get ${planText(plan)}, also those with one of their own.\n`,
  )
  await requireYes(host.streams, 'Change the plan? [y/N] ', 'changed')
}

async function changePlan(session: AdminSession, workspace: string, plan: string | null): Promise<void> {
  const { client } = session
  const call = { method: 'PUT', path: planPath(workspace), body: { plan } } as const
  const { keys, cursor, ...progress } = await callUntilDone(client, call, response => {
    const { changed, plan: _, ...part } = readResponse(client, planChangedResponse, response)
    return { ...part, keys: changed }
  })
  const lines = [`Workspace ${workspace} has ${planText(plan)}; changed ${keyCount(keys)}.`]
  if (keys > 0) lines.push(...progressLines(null, progress))
  printOutcome(session, JSON.stringify({ plan, changed: keys, ...progress }), progress, lines)
}
