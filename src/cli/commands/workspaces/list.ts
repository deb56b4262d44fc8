import type { Command } from 'commander'
import { plainPasted } from '../../../domain/pasted-text.ts'
import { readPages } from '../../admin/pages.ts'
import { type ShownWorkspace, workspacesResponse } from '../../admin/responses.ts'
import { addAccessOptions, openSession } from '../../admin/session.ts'
import type { Cli } from '../../cli.ts'
import { addListOptions, outputFormatOf } from '../../options/list-options.ts'
import { lastUseText } from '../../output/key-text.ts'
import { type ListView, printList } from '../../output/print-list.ts'
import type { Column } from '../../output/table.ts'
import { plainText } from '../../output/text.ts'

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
  idOf: ({ workspaceId }) => workspaceId,
  whenEmpty: 'You can see no workspaces with keys.',
}

/** `postern workspaces list`: all pages. */
export function addList(workspaces: Command, cli: Cli): void {
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
    await printList(host, outputFormatOf(self), VIEW, pages)
  })
}
