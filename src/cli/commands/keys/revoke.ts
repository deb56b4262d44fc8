import { systemClock } from '../domain/clock.ts'
import { EXIT } from '../run/host.ts'
import { keyAnswer, readAnswer, revokedAnswer, type ShownKey } from './admin-answers.ts'
import type { KeysCommand } from './admin-client.ts'
import { CliError } from './cli-error.ts'
import { canAsk, confirm } from './confirm.ts'
import {
  gatewaysText,
  lastUseText,
  nameOf,
  paintFor,
  scopesText,
  stateText,
  UNANNOUNCED,
} from './key-text.ts'
import { minuteOf, plainText } from './text.ts'

const UNCONFIRMED = 'There is no terminal to confirm at: add --yes to revoke a key without one'

/** `postern keys revoke` */
export async function revokeKey(
  command: KeysCommand,
  { id, confirmed }: { id: string; confirmed: boolean },
): Promise<void> {
  const { client, host, json } = command
  if (!confirmed) await askFirst(command, id)
  const answer = await client.ask({ method: 'POST', path: `/keys/${id}/revoke?wait=1` })
  const { key, announced, gateways } = readAnswer(client, revokedAnswer, answer)
  const lines = gateways ? [outcomeOf(key), gatewaysText(gateways)] : [outcomeOf(key)]
  host.write(json ? `${answer.text}\n` : `${lines.join('\n')}\n`)
  if (announced === false) host.complain(`${UNANNOUNCED}.\n`)
}

async function askFirst({ client, host }: KeysCommand, id: string): Promise<void> {
  if (!canAsk(host.streams)) throw new CliError(UNCONFIRMED, EXIT.usage)
  const { key } = readAnswer(client, keyAnswer, await client.ask({ method: 'GET', path: `/keys/${id}` }))
  // The key does not work any more: there is nothing to confirm.
  if (key.state === 'revoked' || key.state === 'expired') return
  const paint = paintFor(host.streams.errors, host)
  const facts = [
    ['name', plainText(key.name)],
    ['workspace', plainText(key.workspaceId)],
    ['scopes', scopesText(key)],
    ['state', stateText(key, paint)],
    ['last used', lastUseText(key, systemClock.wallMs())],
  ]
  host.complain(`${key.id} (${plainText(key.hint)}) would be revoked, for good:\n`)
  for (const [label = '', fact] of facts) host.complain(`  ${paint('bold', label.padEnd(10))} ${fact}\n`)
  host.complain('Clients that still use it are rejected within a second.\n')
  if (await confirm(host.streams, 'Revoke it? [y/N] ')) return
  throw new CliError('Nothing was revoked', EXIT.failure)
}

function outcomeOf(key: ShownKey): string {
  const which = `${nameOf(key)} of workspace ${plainText(key.workspaceId)}`
  if (key.revokedAt === null) return `Nothing to revoke: ${which} had expired.`
  return `Revoked at ${minuteOf(key.revokedAt)} UTC: ${which}.`
}
