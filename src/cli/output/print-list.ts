import { systemClock } from '../../domain/clock.ts'
import type { Host } from '../../run/host.ts'
import type { OutputFormat } from '../options/list-options.ts'
import { paintFor } from './paint.ts'
import { type Column, renderTable } from './table.ts'

/** How a list command shows its items. */
export interface ListView<Item> {
  /** The list's field in the JSON: `keys`. */
  readonly name: string
  readonly columns: readonly Column<Item>[]
  /** What `-q` prints. */
  readonly idOf: (item: Item) => string
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
    if (format === 'ids') host.write(page.map(item => `${view.idOf(item)}\n`).join(''))
    else if (format === 'ndjson') host.write(page.map(item => `${JSON.stringify(item)}\n`).join(''))
    else items.push(...page)
  }
  if (format === 'json') host.write(`${JSON.stringify({ [view.name]: items })}\n`)
  if (format !== 'table' && format !== 'wide') return
  if (items.length === 0) host.complain(`${view.whenEmpty}\n`)
  else host.write(tableOf(host, format === 'wide', view, items))
}

function tableOf<Item>(host: Host, isWide: boolean, { columns }: ListView<Item>, items: Item[]): string {
  const { output } = host.streams
  const paint = paintFor(output, host)
  return renderTable(columns, items, { width: widthOf(host), isWide, nowMs: systemClock.wallMs(), paint })
}

/** A pipe has no width: nothing is cut there unless COLUMNS says so. */
export function widthOf({ streams: { output }, environment }: Host): number {
  if (output.isTTY === true && output.columns !== undefined) return output.columns
  const columns = Number(environment['COLUMNS'])
  return columns > 0 ? columns : Number.POSITIVE_INFINITY
}
