import type { Command } from 'commander'
import type { Static } from 'typebox'
import { EXIT } from '../../../run/host.ts'
import { readPages } from '../../admin/pages.ts'
import { keysResponse, readResponse, revokedAllResponse, totalResponse } from '../../admin/responses.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../admin/session.ts'
import { type Cli, CliError } from '../../cli.ts'
import { checkWorkspace } from '../../options/key-options.ts'
import { canPrompt, confirm } from '../../output/confirm.ts'
import { keyCount } from '../../output/key-text.ts'
import { createProgress } from '../../output/progress.ts'
import { notAnnouncedText, progressLines } from '../../output/revocation-text.ts'

/** A request takes some seconds, and the last one waits for slow announcements. */
const DEADLINE_MS = 60_000
const FINAL = new Set(['expired', 'revoked'])
const UNCONFIRMED = 'There is no terminal to confirm at: add --yes to revoke the keys without one'

/** `postern keys revoke-all` */
export function addRevokeAll(keys: Command, cli: Cli): void {
  const revokeAll = keys
    .command('revoke-all')
    .description('revoke every key of a workspace, for good')
    .requiredOption('--workspace <id>', 'workspace of the keys')
    .option('--yes', 'do not ask for confirmation')
  addAccessOptions(addJsonOption(revokeAll)).action(
    async (options: { workspace: string; yes?: boolean }, self: Command) => {
      const workspace = checkWorkspace(options.workspace)
      const session = openSession(cli, self)
      if (options.yes !== true) await confirmFirst(session, workspace)
      await revokeKeys(session, workspace)
    },
  )
}

async function revokeKeys(session: AdminSession, workspace: string): Promise<void> {
  const { host, json } = session
  const { revoked, ...progress } = await revokeInCalls(session, workspace)
  if (json) {
    host.write(`${JSON.stringify({ revoked, ...progress })}\n`)
    if (progress.announced === false) host.complain(`${notAnnouncedText(progress)}\n`)
    return
  }
  const lines =
    revoked === 0
      ? [`Nothing to revoke: no key of workspace ${workspace} works.`]
      : [`Revoked ${keyCount(revoked)} of workspace ${workspace}.`, ...progressLines(null, progress)]
  host.write(`${lines.join('\n')}\n`)
}

/** The console answers after some seconds, and says whether another call must go on. */
async function revokeInCalls(session: AdminSession, workspace: string): Promise<RevokedAll> {
  const { client, host, json } = session
  const bar = createProgress(host.streams.errors, json, 'keys revoked')
  let sum: RevokedAll = { revoked: 0 }
  let total: number | null = null
  let cursor: string | undefined
  try {
    do {
      const query = new URLSearchParams({ wait: '1', ...(cursor === undefined ? {} : { cursor }) })
      const path = `/workspaces/${encodeURIComponent(workspace)}/revoke-all?${query}`
      const response = await client.send({ method: 'POST', path, deadlineMs: DEADLINE_MS })
      const { revoked, ...part } = readResponse(client, revokedAllResponse, response)
      if (part.cursor !== undefined && revoked === 0) throw client.notUnderstood()
      cursor = part.cursor
      // A last call without a key has nothing that gateways confirm.
      const gateways = part.gateways ?? sum.gateways
      sum = { ...part, ...(gateways === undefined ? {} : { gateways }), revoked: sum.revoked + revoked }
      if (cursor !== undefined) total ??= sum.revoked + (await countLeft(session, workspace))
      if (total !== null) bar.show(sum.revoked, Math.max(total, sum.revoked))
    } while (cursor !== undefined)
  } catch (error) {
    if (sum.revoked > 0) host.complain(unfinishedText(sum.revoked))
    throw error
  } finally {
    if (total !== null) bar.end()
  }
  return sum
}

type RevokedAll = Static<typeof revokedAllResponse>

function unfinishedText(revoked: number): string {
  return `Revoked ${keyCount(revoked)}, then this failed. Repeat the command: it revokes the rest.\n`
}

/** Active, retiring and suspended keys; 0 for those that are too many to count. */
async function countLeft({ client }: AdminSession, workspaceId: string): Promise<number> {
  let left = 0
  for (const state of ['active', 'retiring', 'suspended']) {
    const query = new URLSearchParams({ workspaceId, state, limit: '1', count: '1' })
    const response = await client.send({ method: 'GET', path: `/keys?${query}` })
    left += readResponse(client, totalResponse, response).total ?? 0
  }
  return left
}

async function confirmFirst(session: AdminSession, workspace: string): Promise<void> {
  const { host } = session
  if (!canPrompt(host.streams)) throw new CliError(UNCONFIRMED, EXIT.usage)
  const count = await countKeys(session, workspace)
  if (count === 0) return
  host.complain(`${keyCount(count)} of workspace ${workspace} would be revoked, for good.\n`)
  host.complain('Clients that still use one are rejected within a second.\n')
  const question = count === 1 ? 'Revoke it? [y/N] ' : `Revoke all ${count}? [y/N] `
  if (await confirm(host.streams, question)) return
  throw new CliError('Nothing was revoked', EXIT.failure)
}

/** Active, retiring and suspended keys. */
async function countKeys({ client }: AdminSession, workspace: string): Promise<number> {
  const path = `/workspaces/${encodeURIComponent(workspace)}/keys`
  let count = 0
  for await (const keys of readPages(client, { path }, keysResponse, page => page.keys)) {
    count += keys.filter(({ state }) => !FINAL.has(state)).length
  }
  return count
}
