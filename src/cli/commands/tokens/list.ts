import type { Command } from 'commander'
import { readPages } from '../../admin/pages.ts'
import { addAccessOptions, openSession } from '../../admin/session.ts'
import { type ShownToken, tokensResponse } from '../../admin/token-responses.ts'
import type { Cli } from '../../cli.ts'
import { addListOptions, outputFormatOf } from '../../options/list-options.ts'
import { type ListView, printList } from '../../output/print-list.ts'
import { TOKEN_COLUMNS } from '../../output/token-text.ts'

const VIEW: ListView<ShownToken> = {
  name: 'tokens',
  columns: TOKEN_COLUMNS,
  idOf: ({ id }) => id,
  whenEmpty: 'There are no admin tokens that you may see: `postern tokens issue` issues one.',
}

/** `postern tokens list`: all pages. */
export function addList(tokens: Command, cli: Cli): void {
  const list = tokens.command('list').description('list admin tokens, newest first')
  addAccessOptions(addListOptions(list)).action(async (_, self: Command) => {
    const { client, host } = openSession(cli, self)
    const pages = readPages(client, { path: '/tokens' }, tokensResponse, page => page.tokens)
    await printList(host, outputFormatOf(self), VIEW, pages)
  })
}
