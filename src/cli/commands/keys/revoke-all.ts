import type { Command } from 'commander'
import { EXIT } from '../../../run/host.ts'
import { readPages } from '../../admin/pages.ts'
import { keysResponse, readResponse, revokedAllResponse } from '../../admin/responses.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../admin/session.ts'
import type { Cli } from '../../cli.ts'
import { CliError } from '../../cli-error.ts'
import { checkWorkspace } from '../../options/key-options.ts'
import { canPrompt, confirm } from '../../output/confirm.ts'
import { keyCount } from '../../output/key-text.ts'
import { notAnnouncedText, progressLines } from '../../output/revocation-text.ts'

/** Many keys are revoked in one request. */
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
    async ({ workspace, yes }: { workspace: string; yes?: boolean }, self: Command) => {
      checkWorkspace(workspace)
      const session = openSession(cli, self)
      if (yes !== true) await confirmFirst(session, workspace)
      await revokeKeys(session, workspace)
    },
  )
}

async function revokeKeys({ client, host, json }: AdminSession, workspace: string): Promise<void> {
  const path = `/workspaces/${encodeURIComponent(workspace)}/revoke-all?wait=1`
  const response = await client.send({ method: 'POST', path, deadlineMs: DEADLINE_MS })
  const { revoked, ...progress } = readResponse(client, revokedAllResponse, response)
  if (json) {
    host.write(`${response.text}\n`)
    if (progress.announced === false) host.complain(`${notAnnouncedText(progress)}\n`)
    return
  }
  const lines =
    revoked === 0
      ? [`Nothing to revoke: no key of workspace ${workspace} works.`]
      : [`Revoked ${keyCount(revoked)} of workspace ${workspace}.`, ...progressLines(null, progress)]
  host.write(`${lines.join('\n')}\n`)
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
