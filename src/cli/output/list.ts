import { type Command, Option } from 'commander'
import { systemClock } from '../../domain/clock.ts'
import type { Host } from '../../run/host.ts'
import { wholeNumberTo } from '../options/values.ts'
import { type Column, renderTable } from './table.ts'
import { paintFor, terminalWidth } from './terminal.ts'

const MAX_LISTED = 999_999

const FORMATS = ['table', 'wide', 'json', 'ndjson'] as const
export type OutputFormat = (typeof FORMATS)[number] | 'ids'

interface ListOptions {
  readonly output?: OutputFormat
  readonly json?: boolean
  readonly quiet?: boolean
}

/** Adds the options of every list command. */
export function addListOptions(command: Command): Command {
  return command
    .addOption(
      new Option(
        '-o, --output <format>',
        'format of the list; wide shows all columns in full (default: table)',
      )
        .choices(FORMATS)
        .conflicts(['json', 'quiet']),
    )
    .addOption(new Option('-q, --quiet', 'print ids alone').conflicts('json'))
    .addOption(new Option('--json', 'same as -o json'))
}

export function chooseOutputFormat(command: Command): OutputFormat {
  const { output, json, quiet } = command.opts<ListOptions>()
  if (quiet === true) return 'ids'
  return json === true ? 'json' : (output ?? 'table')
}

/** `--limit`, for lists that have no end. */
export function limitOption(description: string): Option {
  return new Option('--limit <count>', description).argParser(wholeNumberTo(MAX_LISTED))
}

/** Only the items that are wanted, of each page. */
export async function* filterItems<Item>(
  pages: AsyncIterable<readonly Item[]>,
  isWanted: (item: Item) => boolean,
): AsyncGenerator<readonly Item[]> {
  for await (const page of pages) yield page.filter(isWanted)
}

/** The first items. Once there are as many, no further page is asked for. */
export async function* firstItems<Item>(
  pages: AsyncIterable<readonly Item[]>,
  limit = Number.POSITIVE_INFINITY,
): AsyncGenerator<readonly Item[]> {
  let left = limit
  for await (const page of pages) {
    yield page.slice(0, left)
    left -= page.length
    if (left <= 0) return
  }
}

/** How a list command shows its items. */
export interface ListView<Item> {
  /** The list's field in the JSON: `keys`. */
  readonly name: string
  readonly columns: readonly Column<Item>[]
  /** What `-q` prints. */
  readonly id: (item: Item) => string
  /** Said to people if there are no items. */
  readonly whenEmpty: string
}

/**
 * Prints a list in the chosen format. Ids and NDJSON are written page by page.
 * @param pages the items as the admin API answers them, unknown fields included
 */
export async function printList<Item>(
  host: Host,
  format: OutputFormat,
  view: ListView<Item>,
  pages: AsyncIterable<readonly Item[]> | Iterable<readonly Item[]>,
): Promise<void> {
  const items: Item[] = []
  for await (const page of pages) {
    if (format === 'ids') host.write(page.map(item => `${view.id(item)}\n`).join(''))
    else if (format === 'ndjson') host.write(page.map(item => `${JSON.stringify(item)}\n`).join(''))
    else items.push(...page)
  }
  if (format === 'json') host.write(`${JSON.stringify({ [view.name]: items })}\n`)
  if (format !== 'table' && format !== 'wide') return
  if (items.length === 0) host.writeError(`${view.whenEmpty}\n`)
  else host.write(formatTable(host, format === 'wide', view, items))
}

function formatTable<Item>(host: Host, isWide: boolean, { columns }: ListView<Item>, items: Item[]): string {
  const { output } = host.streams
  const paint = paintFor(output, host)
  return renderTable(columns, items, {
    width: terminalWidth(host),
    isWide,
    nowMs: systemClock.wallMs(),
    paint,
  })
}
