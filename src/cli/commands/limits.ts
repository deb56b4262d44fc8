import { type Static, Type } from 'typebox'
import { nearLimit as describedLimit } from '../../console/platform/http/items.ts'
import { type Define, plainText, secondText } from '../cli.ts'
import { paged, readPages } from '../client/client.ts'
import { addAccessOptions, openSession } from '../client/session.ts'
import { checkWorkspace } from '../options/values.ts'
import {
  addListOptions,
  chooseOutputFormat,
  firstItems,
  type ListView,
  limitOption,
  printList,
} from '../output/list.ts'

const nearLimit = Type.Omit(describedLimit, ['per', 'reportedAt'])
const limitsResponse = Type.Object({ limits: Type.Array(nearLimit), ...paged.properties })

/** The key, or the workspace where all its keys are counted together, is never cut: it is what people look for. */
const VIEW: ListView<Static<typeof nearLimit>> = {
  name: 'limits',
  columns: [
    { title: 'WORKSPACE', text: ({ workspaceId }) => plainText(workspaceId) },
    { title: 'KEY', text: ({ keyId }) => plainText(keyId ?? 'all keys') },
    {
      title: 'POLICY',
      text: ({ policy, region }) => plainText(region === null ? policy : `${policy} in ${region}`),
    },
    { title: 'USED', text: ({ used, limit }) => `${used} of ${limit}` },
    { title: 'LEFT', text: ({ remaining }) => String(remaining) },
    { title: 'UNTIL (UTC)', text: ({ resetsAt }) => secondText(resetsAt), leaves: 2 },
    { title: 'PLAN', text: ({ plan }) => plainText(plan ?? 'none'), leaves: 1 },
  ],
  id: ({ keyId, workspaceId }) => keyId ?? workspaceId,
  whenEmpty: 'No rate limit is used by 80 % or more. The console knows it ten seconds late.',
}

/** `postern limits list` */
export const define: Define = (limits, cli) => {
  const list = limits
    .command('list')
    .description('list the rate limits that a key or workspace has used by at least 80 %, the fullest first')
    .option('--workspace <id>', 'limits in this workspace alone')
    .addOption(limitOption('number of limits, at most (default: all)'))
  addAccessOptions(addListOptions(list)).action(
    async ({ workspace, limit }: { workspace?: string; limit?: number }, self) => {
      const { client, host } = openSession(cli, self)
      const query = workspace === undefined ? {} : { workspaceId: checkWorkspace(workspace) }
      const pages = readPages(client, { path: '/limits', query }, limitsResponse, page => page.limits)
      await printList(host, chooseOutputFormat(self), VIEW, firstItems(pages, limit))
    },
  )
}
