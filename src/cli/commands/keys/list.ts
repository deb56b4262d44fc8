import type { Command } from 'commander'
import { keysAnswer } from '../../admin/answers.ts'
import { readPages } from '../../admin/pages.ts'
import { addAccessOptions, openSession } from '../../admin/session.ts'
import type { Cli } from '../../cli.ts'
import { checkWorkspace } from '../../options/key-options.ts'
import { addListOptions, outputFormatOf } from '../../options/list-options.ts'
import { KEY_COLUMNS } from '../../output/key-columns.ts'
import { printList } from '../../output/print-list.ts'

/** `postern keys list`: all pages. */
export function addList(keys: Command, cli: Cli): void {
  const list = keys
    .command('list')
    .description('list the keys of a workspace, newest first')
    .requiredOption('--workspace <id>', 'workspace of the keys')
  addAccessOptions(addListOptions(list)).action(async (options: { workspace: string }, self: Command) => {
    const workspace = checkWorkspace(options.workspace)
    const { client, host } = openSession(cli, self)
    const path = `/workspaces/${encodeURIComponent(workspace)}/keys`
    const pages = readPages(client, { path }, keysAnswer, ({ keys }) => keys)
    const view = {
      name: 'keys',
      columns: KEY_COLUMNS,
      idOf: ({ id }: { id: string }) => id,
      whenEmpty: `Workspace ${workspace} has no keys.`,
    }
    await printList(host, outputFormatOf(self), view, pages)
  })
}
