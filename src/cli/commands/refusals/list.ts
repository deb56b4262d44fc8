import type { Command } from 'commander'
import { plainPasted } from '../../../domain/pasted-text.ts'
import { readPages } from '../../admin/pages.ts'
import { refusalsResponse, type ShownRefusal } from '../../admin/refusal-responses.ts'
import { type AdminSession, addAccessOptions, openSession } from '../../admin/session.ts'
import type { Cli } from '../../cli.ts'
import { checkKeyId, checkWorkspace } from '../../options/key-options.ts'
import { addListOptions, limitOption, outputFormatOf } from '../../options/list-options.ts'
import { type ListView, printList } from '../../output/print-list.ts'
import { REFUSAL_COLUMNS } from '../../output/refusal-columns.ts'

interface Conditions {
  readonly key?: string
  readonly requestId?: string
}
interface Options extends Conditions {
  readonly workspace: string
  readonly limit?: number
}

/** `postern refusals list` */
export function addList(refusals: Command, cli: Cli): void {
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
    const pages = matchesOf(session, workspaceId, options)
    await printList(session.host, outputFormatOf(self), viewOf(workspaceId, options), pages)
  })
}

function viewOf(workspaceId: string, { key, requestId }: Conditions): ListView<ShownRefusal> {
  const condition = key === undefined && requestId === undefined ? '' : ' that match'
  return {
    name: 'refusals',
    columns: REFUSAL_COLUMNS,
    idOf: ({ requestId: id }) => id,
    whenEmpty: `Workspace ${workspaceId} has no rejected requests${condition}. The console knows them ten seconds late.`,
  }
}

/** The console keeps so few of a workspace that the conditions are checked here. */
async function* matchesOf(
  session: AdminSession,
  workspaceId: string,
  { key, requestId, limit = Number.POSITIVE_INFINITY }: Options,
) {
  let left = limit
  let isSampled = false
  const request = { path: `/workspaces/${workspaceId}/refusals` }
  const pages = readPages(session.client, request, refusalsResponse, ({ refusals, sampled }) => {
    isSampled ||= sampled
    return refusals
  })
  for await (const refusals of pages) {
    const matches = refusals.filter(
      refusal =>
        (key === undefined || refusal.keyId === key) &&
        (requestId === undefined || refusal.requestId === requestId),
    )
    yield matches.slice(0, left)
    left -= matches.length
    if (left <= 0) break
  }
  if (isSampled)
    session.host.complain('The list is not complete: gateways left some rejected requests out.\n')
}
