import type { Command } from 'commander'
import { systemClock } from '../../../domain/clock.ts'
import { keyResponse, readResponse } from '../../admin/responses.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../admin/session.ts'
import type { Cli } from '../../cli.ts'
import { checkKeyId } from '../../options/key-options.ts'
import { factLines } from '../../output/facts.ts'
import { keyFacts } from '../../output/key-facts.ts'
import { paintFor } from '../../output/paint.ts'

/** `postern keys show` */
export function addShow(keys: Command, cli: Cli): void {
  const show = keys.command('show').description('show a key in full').argument('<id>', 'the key’s id (key_…)')
  addAccessOptions(addJsonOption(show)).action(async (text: string, _, self: Command) => {
    const id = checkKeyId(text)
    await showKey(openSession(cli, self), id)
  })
}

async function showKey({ client, host, json }: AdminSession, id: string): Promise<void> {
  const response = await client.send({ method: 'GET', path: `/keys/${id}` })
  const { key } = readResponse(client, keyResponse, response)
  if (json) return host.write(`${response.text}\n`)
  const paint = paintFor(host.streams.output, host)
  host.write(factLines(keyFacts(key, systemClock.wallMs(), paint), paint))
}
