import type { Command } from 'commander'
import { systemClock } from '../../../domain/clock.ts'
import { digestOf } from '../../../domain/key/secret.ts'
import { plainPasted } from '../../../domain/pasted-text.ts'
import { readPages } from '../../admin/pages.ts'
import { keyResponse, keysResponse, readResponse, type ShownKey } from '../../admin/responses.ts'
import { readSecret } from '../../admin/secret-input.ts'
import { type AdminSession, addAccessOptions, openSession } from '../../admin/session.ts'
import type { Cli } from '../../cli.ts'
import { addListOptions, type OutputFormat, outputFormatOf } from '../../options/list-options.ts'
import { factLines } from '../../output/facts.ts'
import { keyColumns } from '../../output/key-columns.ts'
import { keyFacts } from '../../output/key-facts.ts'
import { paintFor } from '../../output/paint.ts'
import { printList } from '../../output/print-list.ts'

/** `postern keys find`: whose key is this? */
export function addFind(keys: Command, cli: Cli): void {
  const find = keys
    .command('find')
    .description('find the key that is on standard input; only its SHA-256 digest is sent')
    .option('--hint <hint>', 'list the keys with this hint, such as wsk_…x7Qf, instead', plainPasted)
  addAccessOptions(addListOptions(find)).action(async ({ hint }: { hint?: string }, self: Command) => {
    const session = openSession(cli, self)
    const format = outputFormatOf(self)
    await (hint === undefined ? findBySecret(session, format) : listByHint(session, format, hint))
  })
}

async function findBySecret({ client, host }: AdminSession, format: OutputFormat): Promise<void> {
  const secret = await readSecret(host.streams, 'Key (not shown): ')
  const body = { digest: digestOf(secret) }
  const response = await client.send({ method: 'POST', path: '/keys/lookup', body })
  const { key } = readResponse(client, keyResponse, response)
  if (format === 'ids') return host.write(`${key.id}\n`)
  if (format === 'json' || format === 'ndjson') return host.write(`${response.text}\n`)
  const paint = paintFor(host.streams.output, host)
  host.write(factLines(keyFacts(key, systemClock.wallMs(), paint), paint))
}

async function listByHint({ client, host }: AdminSession, format: OutputFormat, hint: string): Promise<void> {
  const pages = readPages(client, { path: '/keys', query: { q: hint } }, keysResponse, page => page.keys)
  const view = {
    name: 'keys',
    columns: keyColumns({ ofOneWorkspace: false }),
    idOf: ({ id }: ShownKey) => id,
    whenEmpty: `You can see no key with the hint ${hint}.`,
  }
  await printList(host, format, view, withHint(pages, hint))
}

/** The text may also be in a name or description. */
async function* withHint(pages: AsyncIterable<readonly ShownKey[]>, hint: string) {
  for await (const page of pages) yield page.filter(key => key.hint.includes(hint))
}
