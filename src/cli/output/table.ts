import Table from 'cli-table3'
import { fitColumns, GAP, type Room } from './fit-columns.ts'
import type { Colour, Paint } from './paint.ts'

/** A column of a table, declared once with what it shows. */
export interface Column<Item> extends Room {
  readonly title: string
  readonly text: (item: Item, nowMs: number) => string
  readonly colour?: (item: Item, nowMs: number) => Colour
  /** Shown with `-o wide` alone. */
  readonly wideOnly?: true
}

export interface TableRoom {
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
    width: Math.max(...[title, ...cells].map(widthOf)),
  }))
  const widths = fitColumns(measured, isWide ? Number.POSITIVE_INFINITY : width)
  const shown = filled.flatMap((column, index) => {
    const fitted = widths[index]
    return fitted == null ? [] : [{ ...column, fitted }]
  })
  const table = new Table({ chars: NO_BORDERS, style: PLAIN, colWidths: shown.map(({ fitted }) => fitted) })
  table.push(shown.map(({ title }) => paint('bold', title)))
  for (const [row, item] of items.entries()) {
    table.push(
      shown.map(({ cells, colour }) => {
        const cell = cells[row] ?? ''
        return colour === undefined ? cell : paint(colour(item, nowMs), cell)
      }),
    )
  }
  return `${linesOf(table).join('\n')}\n`
}

/** Without the spaces with which the library pads the last column. */
function linesOf(table: Table.Table): string[] {
  return table
    .toString()
    .split('\n')
    .map(line => line.trimEnd())
}

function widthOf(text: string): number {
  return [...CHARACTERS.segment(text)].length + (text.match(DOUBLE)?.length ?? 0)
}
