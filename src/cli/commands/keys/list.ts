import type { Command } from 'commander'
import { readPages } from '../../admin/pages.ts'
import { keysResponse, type ShownKey } from '../../admin/responses.ts'
import { addAccessOptions, openSession } from '../../admin/session.ts'
import type { Cli } from '../../cli.ts'
import { checkWorkspace } from '../../options/key-options.ts'
import { addListOptions, outputFormatOf } from '../../options/list-options.ts'
import { addSearchOptions, type SearchOptions, searchQueryOf } from '../../options/search-options.ts'
import { keyColumns } from '../../output/key-columns.ts'
import { type ListView, printList } from '../../output/print-list.ts'

interface Options extends SearchOptions {
  readonly workspace?: string
}

/** `postern keys list`: all pages. */
export function addList(keys: Command, cli: Cli): void {
  const list = keys
    .command('list')
    .description('list keys, newest first; of all workspaces unless one is given')
    .option('--workspace <id>', 'workspace of the keys')
  addAccessOptions(addListOptions(addSearchOptions(list))).action(async (options: Options, self: Command) => {
    const { workspace, ...conditions } = options
    const workspaceId = workspace === undefined ? {} : { workspaceId: checkWorkspace(workspace) }
    const search = searchQueryOf(conditions)
    const { client, host } = openSession(cli, self)
    const query = { ...workspaceId, ...search }
    const pages = readPages(client, { path: '/keys', query }, keysResponse, page => page.keys)
    const hasConditions = Object.keys(search).some(name => name !== 'sort')
    await printList(host, outputFormatOf(self), viewOf(workspace, hasConditions), pages)
  })
}

function viewOf(workspace: string | undefined, hasConditions: boolean): ListView<ShownKey> {
  const place = workspace === undefined ? 'You can see' : `Workspace ${workspace} has`
  return {
    name: 'keys',
    columns: keyColumns({ ofOneWorkspace: workspace !== undefined }),
    idOf: ({ id }) => id,
    whenEmpty: hasConditions ? `${place} no keys that match.` : `${place} no keys.`,
  }
}
