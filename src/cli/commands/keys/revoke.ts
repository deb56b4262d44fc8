import type { Command } from 'commander'
import { Type } from 'typebox'
import { systemClock } from '../../../domain/clock.ts'
import { EXIT } from '../../../run/host.ts'
import { type Cli, CliError, keyCount, lastUseText, plainText } from '../../cli.ts'
import {
  type AdminResponse,
  callUntilDone,
  changedPart,
  changedResponse,
  count,
  keysResponse,
  readKey,
  readPages,
  readResponse,
  type ShownKey,
} from '../../client/client.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../client/session.ts'
import { checkKeyId, checkWorkspace } from '../../options/values.ts'
import {
  dryRunOption,
  keyName,
  printDryRun,
  printOutcome,
  progressLines,
  SHOWN_AT_MOST,
  scopesText,
  stateColour,
  whichKey,
} from '../../output/key-text.ts'
import { createProgress, isAttended, paintFor, requirePrompt, requireYes } from '../../output/terminal.ts'

const FINAL = new Set(['expired', 'revoked'])
const revokedAllResponse = Type.Object({ revoked: count, ...changedPart.properties })
const totalResponse = Type.Object({ total: Type.Optional(count) })
const callerResponse = Type.Object({ permissions: Type.Array(Type.String()) })
const WRITES = 'keys:write'

/** `postern keys revoke` */
export function addRevoke(keys: Command, cli: Cli): void {
  const revoke = keys
    .command('revoke')
    .description('revoke a key, for good')
    .argument('<id>', 'the key’s id (key_…)')
    .option('--yes', 'do not ask for confirmation')
  addAccessOptions(addJsonOption(revoke)).action(
    async (text: string, { yes }: { yes?: boolean }, self: Command) => {
      const id = checkKeyId(text)
      const session = openSession(cli, self)
      if (yes !== true && isAttended(cli.host)) await confirmKey(session, id)
      await revokeKey(session, id)
    },
  )
}

async function revokeKey(session: AdminSession, id: string): Promise<void> {
  const response = await session.client.send({ method: 'POST', path: `/keys/${id}/revoke?wait=1` })
  const { key, ...progress } = readResponse(session.client, changedResponse, response)
  const which = whichKey(key)
  const lines =
    key.revokedAt === null
      ? [`Nothing to revoke: ${which} had expired.`]
      : [`Revoked ${which}.`, ...progressLines(key.revokedAt, progress)]
  printOutcome(session, response.text, progress, lines)
}

async function confirmKey({ client, host }: AdminSession, id: string): Promise<void> {
  requirePrompt(host.streams, 'revoke a key')
  const key = await readKey(client, id)
  // The key does not work any more: there is nothing to confirm.
  if (key.state === 'revoked' || key.state === 'expired') return
  const paint = paintFor(host.streams.errors, host)
  const facts = [
    ['name', plainText(key.name)],
    ['workspace', plainText(key.workspaceId)],
    ['scopes', scopesText(key)],
    ['state', paint(stateColour(key), plainText(key.state))],
    ['last used', lastUseText(key, systemClock.wallMs())],
  ]
  host.writeError(`${key.id} (${plainText(key.hint)}) would be revoked, for good:\n`)
  for (const [label = '', fact] of facts) host.writeError(`  ${paint('bold', label.padEnd(10))} ${fact}\n`)
  host.writeError('Clients that still use it are rejected within a second.\n')
  await requireYes(host.streams, 'Revoke it? [y/N] ', 'revoked')
}

/** `postern keys revoke-all` */
export function addRevokeAll(keys: Command, cli: Cli): void {
  const revokeAll = keys
    .command('revoke-all')
    .description('revoke every key of a workspace, for good')
    .requiredOption('--workspace <id>', 'workspace of the keys')
    .option('--yes', 'do not ask for confirmation')
    .addOption(dryRunOption())
  addAccessOptions(addJsonOption(revokeAll)).action(
    async (options: { workspace: string; yes?: boolean; dryRun?: boolean }, self: Command) => {
      const workspace = checkWorkspace(options.workspace)
      const session = openSession(cli, self)
      if (options.dryRun === true) return planRevocations(session, workspace)
      if (options.yes !== true) await confirmWorkspace(session, workspace)
      await revokeWorkspace(session, workspace)
    },
  )
}

async function revokeWorkspace(session: AdminSession, workspace: string): Promise<void> {
  const { keys: revoked, cursor, ...progress } = await revokeInCalls(session, workspace)
  const lines =
    revoked === 0
      ? [`${nothingToRevoke(workspace)}.`]
      : [`Revoked ${keyCount(revoked)} of workspace ${workspace}.`, ...progressLines(null, progress)]
  printOutcome(session, JSON.stringify({ revoked, ...progress }), progress, lines)
}

function nothingToRevoke(workspace: string): string {
  return `Nothing to revoke: no key of workspace ${workspace} works`
}

/** Shows how far it is. */
async function revokeInCalls(session: AdminSession, workspace: string) {
  const { client, host, json } = session
  const bar = createProgress(host.streams.errors, json, 'keys revoked')
  const call = { method: 'POST', path: `/workspaces/${encodeURIComponent(workspace)}/revoke-all` } as const
  const read = (response: AdminResponse) => {
    const { revoked, ...part } = readResponse(client, revokedAllResponse, response)
    return { ...part, keys: revoked }
  }
  let done = 0
  let total: number | null = null
  try {
    return await callUntilDone(client, call, read, async (revoked, isLast) => {
      done = revoked
      if (!isLast) total ??= done + ((await countUsable(session, workspace)) ?? 0)
      if (total !== null) bar.show(done, Math.max(total, done))
    })
  } catch (error) {
    throw error instanceof CliError && done > 0 ? unfinished(error, done) : error
  } finally {
    if (total !== null) bar.end()
  }
}

function unfinished({ message, exitCode, code }: CliError, revoked: number): CliError {
  const done = `Before that, ${keyCount(revoked)} revoked. Repeat the command: it revokes the rest`
  return new CliError(`${message}. ${done}`, exitCode, code)
}

/** Active, retiring and suspended keys; null if they are too many to count. */
async function countUsable({ client }: AdminSession, workspaceId: string): Promise<number | null> {
  let usable = 0
  for (const state of ['active', 'retiring', 'suspended']) {
    const query = new URLSearchParams({ workspaceId, state, limit: '1', count: '1' })
    const response = await client.send({ method: 'GET', path: `/keys?${query}` })
    const { total } = readResponse(client, totalResponse, response)
    if (total === undefined) return null
    usable += total
  }
  return usable
}

async function confirmWorkspace(session: AdminSession, workspace: string): Promise<void> {
  const { host } = session
  requirePrompt(host.streams, 'revoke the keys')
  const count = await countUsable(session, workspace)
  const what = count === null ? 'Every key' : keyCount(count)
  // Also where none was found: one may be issued or resumed while they are counted.
  const extent =
    count === 0
      ? `No key of workspace ${workspace} works now. Any that does once you confirm would be revoked, for good.\n`
      : `${what} of workspace ${workspace} would be revoked, for good.\n`
  host.writeError(extent)
  host.writeError('Clients that still use one are rejected within a second.\n')
  const number = count === null || count === 0 ? '' : ` ${count}`
  const question = count === 1 ? 'Revoke it? [y/N] ' : `Revoke all${number}? [y/N] `
  await requireYes(host.streams, question, 'revoked')
}

/** Active, retiring and suspended keys: how many, and the first of them. */
async function findUsable({ client }: AdminSession, workspace: string) {
  const path = `/workspaces/${encodeURIComponent(workspace)}/keys`
  const first: ShownKey[] = []
  let count = 0
  for await (const keys of readPages(client, { path }, keysResponse, page => page.keys)) {
    const usable = keys.filter(({ state }) => !FINAL.has(state))
    count += usable.length
    first.push(...usable.slice(0, SHOWN_AT_MOST - first.length))
  }
  return { count, first }
}

async function planRevocations(session: AdminSession, workspace: string): Promise<void> {
  await requireRight(session)
  const { count, first } = await findUsable(session, workspace)
  const title =
    count === 0 ? nothingToRevoke(workspace) : `Would revoke ${keyCount(count)} of workspace ${workspace}`
  const facts = { revoked: count, keys: first.map(({ id }) => id) }
  printDryRun(session, facts, title, first.map(keyName), count)
}

/** A token that may read keys only ends a dry run as it ends the real one. */
async function requireRight({ client }: AdminSession): Promise<void> {
  const caller = readResponse(client, callerResponse, await client.send({ method: 'GET', path: '/whoami' }))
  if (caller.permissions.includes(WRITES)) return
  throw new CliError(
    `The console at ${client.url} does not allow this: it requires the permission ${WRITES}`,
    EXIT.forbidden,
  )
}
