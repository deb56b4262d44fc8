import type { Command } from 'commander'
import { type Static, Type } from 'typebox'
import { plainPasted } from '../../domain/pasted-text.ts'
import type { Define } from '../cli.ts'
import { count, instant, nullable, readPages } from '../client/responses.ts'
import { addAccessOptions, openSession } from '../client/session.ts'
import { addListOptions, chooseOutputFormat, type ListView, printList } from '../output/list.ts'
import type { Column } from '../output/table.ts'
import { lastUseText, plainText } from '../text.ts'

const workspace = Type.Object({
  workspaceId: Type.String(),
  keys: Type.Object({ active: count, retiring: count, suspended: count, expired: count, revoked: count }),
  lastUsedAt: nullable(instant),
})
type ShownWorkspace = Static<typeof workspace>
const workspacesResponse = Type.Object({
  workspaces: Type.Array(workspace),
  cursor: Type.Optional(Type.String()),
})

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
  id: ({ workspaceId }) => workspaceId,
  whenEmpty: 'You can see no workspaces with keys.',
}

/** `postern workspaces list`: all pages. */
export const define: Define = (workspaces, cli) => {
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
    await printList(host, chooseOutputFormat(self), VIEW, pages)
  })
}
