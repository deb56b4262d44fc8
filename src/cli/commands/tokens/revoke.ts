import type { Command } from 'commander'
import { isTokenId } from '../../../control/access/admin-token.ts'
import { plainPasted } from '../../../domain/pasted-text.ts'
import { EXIT } from '../../../run/host.ts'
import { readResponse } from '../../admin/responses.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../admin/session.ts'
import { tokenResponse } from '../../admin/token-responses.ts'
import { type Cli, CliError } from '../../cli.ts'
import { canPrompt, confirm } from '../../output/confirm.ts'
import { minuteOf, plainText } from '../../output/text.ts'

const UNCONFIRMED = 'There is no terminal to confirm at: add --yes to revoke a token without one'

/** `postern tokens revoke` */
export function addRevoke(tokens: Command, cli: Cli): void {
  const revoke = tokens
    .command('revoke')
    .description('revoke an admin token, for good')
    .argument('<id>', 'the token’s id (tok_…)')
    .option('--yes', 'do not ask for confirmation')
  addAccessOptions(addJsonOption(revoke)).action(
    async (text: string, { yes }: { yes?: boolean }, self: Command) => {
      const id = checkTokenId(text)
      const session = openSession(cli, self)
      if (yes !== true) await confirmFirst(session, id)
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
      : `Revoked ${which} at ${minuteOf(token.revokedAt)} UTC.\n`,
  )
}

async function confirmFirst({ host }: AdminSession, id: string): Promise<void> {
  if (!canPrompt(host.streams)) throw new CliError(UNCONFIRMED, EXIT.usage)
  if (await confirm(host.streams, `Revoke ${id}, for good? [y/N] `)) return
  throw new CliError('Nothing was revoked', EXIT.failure)
}

/** A token pasted here by mistake must not reach an error message, a URL or the console's log. */
function checkTokenId(text: string): string {
  const id = plainPasted(text)
  if (isTokenId(id)) return id
  const message = 'This is not the id of a token: ids begin with tok_, and `postern tokens list` shows them'
  throw new CliError(message, EXIT.usage)
}
