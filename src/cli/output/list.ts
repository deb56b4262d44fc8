import Table from 'cli-table3'
import { type Command, Option } from 'commander'
import { systemClock } from '../../domain/clock.ts'
import type { Host } from '../../run/host.ts'
import { wholeNumberTo } from '../options/values.ts'
import { type Colour, type Paint, paintFor, terminalWidth } from './terminal.ts'

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

const ROWS_AT_ONCE = 50
/** Between two columns. */
const GAP = 2

/** How a column may give way if a table is wider than the terminal. A column without any of these stays, uncut. */
interface Room {
  /** The column may be cut to this width. */
  readonly atLeast?: number
  /** The column may be left out; lower numbers go first. */
  readonly leaves?: number
  /** The column is left out before any other is cut: it says in full what another says in short. */
  readonly leavesEarly?: true
}

/** A column of a table, declared once with what it shows. */
export interface Column<Item> extends Room {
  readonly title: string
  readonly text: (item: Item, nowMs: number) => string
  readonly colour?: (item: Item, nowMs: number) => Colour
  /** Shown with `-o wide` alone. */
  readonly wideOnly?: true
}

interface TableRoom {
  /** Infinity where nothing limits it; a wide table ignores it. */
  readonly width: number
  readonly isWide: boolean
  readonly nowMs: number
  readonly paint: Paint
}

const NO_BORDERS = {
  top: '',
  'top-mid': '',
  'top-left': '',
  'top-right': '',
  bottom: '',
  'bottom-mid': '',
  'bottom-left': '',
  'bottom-right': '',
  left: '',
  'left-mid': '',
  mid: '',
  'mid-mid': '',
  right: '',
  'right-mid': '',
  middle: ' '.repeat(GAP),
}
/** No colours of the library: `paintFor` decides about them. */
const PLAIN = { head: [], border: [], 'padding-left': 0, 'padding-right': 0, compact: true }
/** Characters that take two columns of a terminal. */
const DOUBLE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff01-\uff60]|\p{Emoji_Presentation}/gu
const CHARACTERS = new Intl.Segmenter('en', { granularity: 'grapheme' })

/** A head and one line per item. Columns give way until the table fits. */
export function renderTable<Item>(
  columns: readonly Column<Item>[],
  items: readonly Item[],
  { width, isWide, nowMs, paint }: TableRoom,
): string {
  const filled = columns
    .filter(({ wideOnly }) => isWide || wideOnly !== true)
    .map(column => ({ ...column, cells: items.map(item => column.text(item, nowMs)) }))
  const measured = filled.map(({ title, cells, ...room }) => ({
    ...room,
    // Not by spreading: a call takes about 100,000 arguments.
    width: cells.reduce((widest, cell) => Math.max(widest, displayWidth(cell)), displayWidth(title)),
  }))
  const widths = fitColumns(measured, isWide ? Number.POSITIVE_INFINITY : width)
  const shown = filled.flatMap((column, index) => {
    const fitted = widths[index]
    return fitted == null ? [] : [{ ...column, fitted }]
  })
  const rows = items.map((item, row) =>
    shown.map(({ cells, colour }) => {
      const cell = cells[row] ?? ''
      return colour === undefined ? cell : paint(colour(item, nowMs), cell)
    }),
  )
  const head = shown.map(({ title }) => paint('bold', title))
  const lines = drawLines(
    [head, ...rows],
    shown.map(({ fitted }) => fitted),
  )
  return `${lines.join('\n')}\n`
}

/**
 * Without the spaces with which the library pads the last column. A few rows at a time: the library compares each with all before
 * it, which would take minutes for 100,000.
 */
function drawLines(rows: readonly (readonly string[])[], widths: readonly number[]): string[] {
  const lines: string[] = []
  for (let from = 0; from < rows.length; from += ROWS_AT_ONCE) {
    const table = new Table({ chars: NO_BORDERS, style: PLAIN, colWidths: [...widths] })
    for (const row of rows.slice(from, from + ROWS_AT_ONCE)) table.push([...row])
    for (const line of table.toString().split('\n')) lines.push(line.trimEnd())
  }
  return lines
}

function displayWidth(text: string): number {
  return [...CHARACTERS.segment(text)].length + (text.match(DOUBLE)?.length ?? 0)
}

/**
 * Which columns a table shows, and how wide.
 * @param columns each with the width of its longest cell
 * @returns the width of each column, and null for one that is left out
 */
export function fitColumns(
  columns: readonly (Room & { readonly width: number })[],
  available: number,
): (number | null)[] {
  let shown = [...columns]
  const uncut = () => totalWidth(shown.map(({ width }) => width))
  const cut = () => totalWidth(shown.map(({ width, atLeast = width }) => Math.min(width, atLeast)))
  const byRank = columns.filter(({ leaves }) => leaves !== undefined)
  byRank.sort((a, b) => (a.leaves ?? 0) - (b.leaves ?? 0))
  for (const column of byRank) {
    const needed = column.leavesEarly === true ? uncut() : cut()
    if (needed > available) shown = shown.filter(other => other !== column)
  }
  let excess = uncut() - available
  // The last column is cut first.
  return columns
    .toReversed()
    .map(column => {
      if (!shown.includes(column)) return null
      const { width, atLeast = width } = column
      const removed = Math.max(0, Math.min(excess, width - atLeast))
      excess -= removed
      return width - removed
    })
    .reverse()
}

function totalWidth(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0) + GAP * Math.max(0, widths.length - 1)
}
