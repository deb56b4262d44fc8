import { type Command, Option } from 'commander'
import { EXIT } from '../../../run/host.ts'
import { entriesResponse, type ShownEntry } from '../../admin/audit-responses.ts'
import { readPages } from '../../admin/pages.ts'
import { type AdminSession, addAccessOptions, openSession } from '../../admin/session.ts'
import { type Cli, CliError } from '../../cli.ts'
import { checkKeyId, parseInstantArgument } from '../../options/key-options.ts'
import { addListOptions, limitOption, type OutputFormat, outputFormatOf } from '../../options/list-options.ts'
import { AUDIT_COLUMNS, entryLine } from '../../output/audit-columns.ts'
import { type ListView, printList } from '../../output/print-list.ts'
import { plainText } from '../../output/text.ts'
import { followEntries } from './follow.ts'

const DEFAULT_LIMIT = 100

interface Conditions {
  readonly key?: string
  readonly actor?: string
  readonly action?: string
  readonly from?: string
  readonly to?: string
}
interface Options extends Conditions {
  readonly limit?: number
  readonly follow?: boolean
}

const VIEW: ListView<ShownEntry> = {
  name: 'entries',
  columns: AUDIT_COLUMNS,
  idOf: ({ id }) => id,
  whenEmpty: 'No entries of the audit log match.',
}

/** `postern audit list` */
export function addList(audit: Command, cli: Cli): void {
  const list = audit
    .command('list')
    .description('list who changed what, newest first')
    .option('--key <id>', 'entries about this key')
    .option('--actor <actor>', 'entries by this actor, such as token:tok_… or person:…')
    .option('--action <action>', 'entries with this action, such as key.revoked')
    .option('--from <time>', 'entries at or after this instant', parseInstantArgument)
    .option('--to <time>', 'entries before this instant', parseInstantArgument)
    .addOption(limitOption(`number of entries, at most (default: ${DEFAULT_LIMIT})`))
    .addOption(
      new Option('--follow', 'print the newest entries oldest first, then new ones as they come').conflicts(
        'to',
      ),
    )
  addAccessOptions(addListOptions(list)).action(async (options: Options, self: Command) => {
    const query = queryOf(options)
    const format = outputFormatOf(self)
    const session = openSession(cli, self)
    if (options.follow === true) return follow(session, format, query, options.limit ?? DEFAULT_LIMIT)
    const pages = newestOf(session, query, options.limit ?? DEFAULT_LIMIT)
    return printList(session.host, format, VIEW, pages)
  })
}

function queryOf({ key, actor, action, from, to }: Conditions): Record<string, string> {
  const keyId = key === undefined ? undefined : checkKeyId(key)
  const given = Object.entries({ keyId, actor, action, from, to })
  return Object.fromEntries(given.filter((entry): entry is [string, string] => entry[1] !== undefined))
}

function pagesOf({ client }: AdminSession, query: Record<string, string>) {
  return readPages(client, { path: '/audit', query }, entriesResponse, ({ entries }) => entries)
}

/** The newest entries. Says so if there are more: an audit log has no end. */
async function* newestOf(session: AdminSession, query: Record<string, string>, limit: number) {
  let left = limit
  for await (const entries of pagesOf(session, query)) {
    if (entries.length > left) {
      yield entries.slice(0, left)
      session.host.complain(
        `More entries match than ${limit}: raise --limit, or narrow with --from and --to.\n`,
      )
      return
    }
    left -= entries.length
    yield entries
  }
}

async function follow(
  session: AdminSession,
  format: OutputFormat,
  query: Record<string, string>,
  limit: number,
): Promise<void> {
  if (format === 'json') throw new CliError('--follow has no end: use -o ndjson', EXIT.usage)
  const { host } = session
  const first: ShownEntry[] = []
  for await (const entries of pagesOf(session, query)) {
    first.push(...entries.slice(0, limit - first.length))
    if (first.length >= limit) break
  }
  const readSince = async (fromMs: number | null) => {
    const since = fromMs === null ? {} : { from: new Date(fromMs).toISOString() }
    const read: ShownEntry[] = []
    for await (const entries of pagesOf(session, { ...query, ...since })) read.push(...entries)
    return read
  }
  await followEntries(first, readSince, entry => host.write(`${lineOf(format, entry)}\n`))
}

function lineOf(format: OutputFormat, entry: ShownEntry): string {
  if (format === 'ids') return entry.id
  if (format === 'ndjson') return JSON.stringify(entry)
  const line = entryLine(entry)
  return format === 'wide' ? `${line}  ${plainText(JSON.stringify(entry.detail))}` : line
}
