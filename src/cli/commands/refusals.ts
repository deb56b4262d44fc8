import type { Command } from 'commander'
import { type Static, Type } from 'typebox'
import { refusal } from '../../console/platform/http/items.ts'
import { plainPasted } from '../../domain/form/text.ts'
import { type Define, plainText, secondText, warn } from '../cli.ts'
import { paged, readPages } from '../client/client.ts'
import { type AdminSession, addAccessOptions, openSession } from '../client/session.ts'
import { checkKeyId, checkWorkspace, givenParameters, parseInstantArgument } from '../options/values.ts'
import {
  addListOptions,
  type Column,
  chooseOutputFormat,
  firstItems,
  type ListView,
  limitOption,
  printList,
} from '../output/list.ts'

type ShownRefusal = Static<typeof refusal>

const refusalsResponse = Type.Object({
  refusals: Type.Array(refusal),
  sampled: Type.Boolean(),
  ...paged.properties,
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

const COLUMNS_OF_ALL: readonly Column<ShownRefusal>[] = [
  ...COLUMNS.slice(0, 3),
  { title: 'WORKSPACE', text: ({ workspaceId }) => plainText(workspaceId), atLeast: 10, leaves: 5 },
  ...COLUMNS.slice(3),
]

interface Conditions {
  readonly key?: string
  readonly code?: string
  readonly requestId?: string
  readonly from?: string
  readonly to?: string
}
interface Options extends Conditions {
  readonly workspace?: string
  readonly limit?: number
}

/** `postern refusals list` */
export const define: Define = (refusals, cli) => {
  const list = refusals
    .command('list')
    .description(
      'list the last rejected requests whose key was known, newest first; of all workspaces unless one is given',
    )
    .option('--workspace <id>', 'requests with keys of this workspace')
    .option('--key <id>', 'requests with this key', checkKeyId)
    .option('--code <code>', 'requests that were answered with this code, such as scope_missing', plainPasted)
    .option('--request-id <id>', 'the request whose response had this X-Request-Id', plainPasted)
    .option('--from <time>', 'requests at or after this instant', parseInstantArgument)
    .option('--to <time>', 'requests before this instant', parseInstantArgument)
    .addOption(limitOption('number of requests, at most (default: all that are kept)'))
  addAccessOptions(addListOptions(list)).action(async (options: Options, self: Command) => {
    const workspaceId = options.workspace === undefined ? null : checkWorkspace(options.workspace)
    const session = openSession(cli, self)
    const pages = readMatches(session, workspaceId, options)
    await printList(session.host, chooseOutputFormat(self), refusalListView(workspaceId, options), pages)
  })
}

function refusalListView(workspaceId: string | null, options: Conditions): ListView<ShownRefusal> {
  const owner = workspaceId === null ? 'The console' : `Workspace ${workspaceId}`
  const condition = Object.keys(createQuery(options)).length === 0 ? '' : ' that match'
  return {
    name: 'refusals',
    columns: workspaceId === null ? COLUMNS_OF_ALL : COLUMNS,
    id: ({ requestId }) => requestId,
    whenEmpty: `${owner} has no rejected requests${condition}. The console knows them ten seconds late.`,
  }
}

function createQuery({ key, code, requestId, from, to }: Conditions): Record<string, string> {
  return givenParameters({ keyId: key, code, requestId, from, to })
}

async function* readMatches(session: AdminSession, workspaceId: string | null, options: Options) {
  let isSampled = false
  const path = workspaceId === null ? '/refusals' : `/workspaces/${workspaceId}/refusals`
  const request = { path, query: createQuery(options) }
  const pages = readPages(session.client, request, refusalsResponse, ({ refusals, sampled }) => {
    isSampled ||= sampled
    return refusals
  })
  yield* firstItems(pages, options.limit)
  if (isSampled) {
    const text = 'The list is not complete: gateways left some rejected requests out.'
    warn(session.host, text, 'incomplete')
  }
}
