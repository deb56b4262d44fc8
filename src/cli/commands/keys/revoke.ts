import type { Command } from 'commander'
import { systemClock } from '../../../domain/clock.ts'
import { EXIT } from '../../../run/host.ts'
import { keyResponse, readResponse, revokedResponse } from '../../admin/responses.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../admin/session.ts'
import { type Cli, CliError } from '../../cli.ts'
import { checkKeyId } from '../../options/key-options.ts'
import { canPrompt, confirm } from '../../output/confirm.ts'
import { keyNameOf, lastUseText, scopesText, stateColour } from '../../output/key-text.ts'
import { paintFor } from '../../output/paint.ts'
import { notAnnouncedText, progressLines } from '../../output/revocation-text.ts'
import { plainText } from '../../output/text.ts'

const UNCONFIRMED = 'There is no terminal to confirm at: add --yes to revoke a key without one'

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
      if (yes !== true) await confirmFirst(session, id)
      await revokeKey(session, id)
    },
  )
}

async function revokeKey({ client, host, json }: AdminSession, id: string): Promise<void> {
  const response = await client.send({ method: 'POST', path: `/keys/${id}/revoke?wait=1` })
  const { key, ...progress } = readResponse(client, revokedResponse, response)
  if (json) {
    host.write(`${response.text}\n`)
    if (progress.announced === false) host.complain(`${notAnnouncedText(progress)}\n`)
    return
  }
  const which = `${keyNameOf(key)} of workspace ${plainText(key.workspaceId)}`
  const lines =
    key.revokedAt === null
      ? [`Nothing to revoke: ${which} had expired.`]
      : [`Revoked ${which}.`, ...progressLines(key.revokedAt, progress)]
  host.write(`${lines.join('\n')}\n`)
}

async function confirmFirst({ client, host }: AdminSession, id: string): Promise<void> {
  if (!canPrompt(host.streams)) throw new CliError(UNCONFIRMED, EXIT.usage)
  const { key } = readResponse(client, keyResponse, await client.send({ method: 'GET', path: `/keys/${id}` }))
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
  host.complain(`${key.id} (${plainText(key.hint)}) would be revoked, for good:\n`)
  for (const [label = '', fact] of facts) host.complain(`  ${paint('bold', label.padEnd(10))} ${fact}\n`)
  host.complain('Clients that still use it are rejected within a second.\n')
  if (await confirm(host.streams, 'Revoke it? [y/N] ')) return
  throw new CliError('Nothing was revoked', EXIT.failure)
}
