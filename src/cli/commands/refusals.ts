import type { Command } from 'commander'
import { type Static, Type } from 'typebox'
import { plainPasted } from '../../domain/pasted-text.ts'
import type { Define } from '../cli.ts'
import { instant, readPages } from '../client/responses.ts'
import { type AdminSession, addAccessOptions, openSession } from '../client/session.ts'
import { checkKeyId, checkWorkspace } from '../options/values.ts'
import {
  addListOptions,
  chooseOutputFormat,
  filterItems,
  firstItems,
  type ListView,
  limitOption,
  printList,
} from '../output/list.ts'
import type { Column } from '../output/table.ts'
import { plainText, secondText } from '../text.ts'

const refusal = Type.Object({
  at: instant,
  route: Type.String(),
  code: Type.String(),
  reason: Type.String(),
  keyId: Type.String(),
  requestId: Type.String(),
  address: Type.String(),
})
type ShownRefusal = Static<typeof refusal>

const refusalsResponse = Type.Object({
  refusals: Type.Array(refusal),
  sampled: Type.Boolean(),
  cursor: Type.Optional(Type.String()),
})

/** Rejected requests as `refusals list` shows them. The reason and the key are never cut: they are what people look for. */
const COLUMNS: readonly Column<ShownRefusal>[] = [
  { title: 'AT (UTC)', text: ({ at }) => secondText(at) },
  { title: 'REASON', text: ({ reason }) => plainText(reason) },
  { title: 'KEY', text: ({ keyId }) => plainText(keyId) },
  { title: 'ROUTE', text: ({ route }) => plainText(route), atLeast: 8, leaves: 3 },
  { title: 'CODE', text: ({ code }) => plainText(code), atLeast: 8, leaves: 4 },
  { title: 'REQUEST', text: ({ requestId }) => plainText(requestId), atLeast: 12, leaves: 2 },
  { title: 'ADDRESS', text: ({ address }) => plainText(address), leaves: 1 },
]

interface Conditions {
  readonly key?: string
  readonly requestId?: string
}
interface Options extends Conditions {
  readonly workspace: string
  readonly limit?: number
}

/** `postern refusals list` */
export const define: Define = (refusals, cli) => {
  const list = refusals
    .command('list')
    .description('list the last rejected requests of a workspace whose key was known, newest first')
    .requiredOption('--workspace <id>', 'workspace of the keys')
    .option('--key <id>', 'requests with this key', checkKeyId)
    .option('--request-id <id>', 'the request whose response had this X-Request-Id', plainPasted)
    .addOption(limitOption('number of requests, at most (default: all that are kept)'))
  addAccessOptions(addListOptions(list)).action(async (options: Options, self: Command) => {
    const workspaceId = checkWorkspace(options.workspace)
    const session = openSession(cli, self)
    const pages = readMatches(session, workspaceId, options)
    await printList(session.host, chooseOutputFormat(self), refusalListView(workspaceId, options), pages)
  })
}

function refusalListView(workspaceId: string, { key, requestId }: Conditions): ListView<ShownRefusal> {
  const condition = key === undefined && requestId === undefined ? '' : ' that match'
  return {
    name: 'refusals',
    columns: COLUMNS,
    id: ({ requestId: id }) => id,
    whenEmpty: `Workspace ${workspaceId} has no rejected requests${condition}. The console knows them ten seconds late.`,
  }
}

/** The console keeps so few of a workspace that the conditions are checked here. */
async function* readMatches(session: AdminSession, workspaceId: string, { key, requestId, limit }: Options) {
  let isSampled = false
  const request = { path: `/workspaces/${workspaceId}/refusals` }
  const pages = readPages(session.client, request, refusalsResponse, ({ refusals, sampled }) => {
    isSampled ||= sampled
    return refusals
  })
  const isWanted = ({ keyId, requestId: id }: ShownRefusal) =>
    (key === undefined || keyId === key) && (requestId === undefined || id === requestId)
  yield* firstItems(filterItems(pages, isWanted), limit)
  if (isSampled)
    session.host.writeError('The list is not complete: gateways left some rejected requests out.\n')
}
