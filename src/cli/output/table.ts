import { stripVTControlCharacters } from 'node:util'
import Table from 'cli-table3'
import type { Host } from '../run/host.ts'
import type { ShownKey } from './admin-answers.ts'
import { lastUseText, type Paint, paintFor, scopesText, stateText } from './key-text.ts'
import { minuteOf, plainText, relativeTime } from './text.ts'

const HEAD = ['ID', 'HINT', 'NAME', 'SCOPES', 'STATE', 'CREATED', 'EXPIRES (UTC)', 'LAST USED']
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
  middle: '  ',
}
/** No colours of the library: `paintFor` decides about them. */
const PLAIN = { head: [], border: [], 'padding-left': 0, 'padding-right': 0, compact: true }

/** One line per key, or one block per key if the terminal is too narrow. */
export function keysTable(keys: readonly ShownKey[], nowMs: number, host: Host): string {
  const { output } = host.streams
  const paint = paintFor(output, host)
  const rows = keys.map(key => cellsOf(key, nowMs, paint))
  const lines = linesOf([HEAD.map(title => paint('bold', title)), ...rows])
  const width = Math.max(...lines.map(line => stripVTControlCharacters(line).length))
  const tooWide = output.isTTY === true && width > output.columns
  return `${(tooWide ? rows.flatMap(cells => [...blockOf(cells, paint), '']) : lines).join('\n')}\n`
}

function cellsOf(key: ShownKey, nowMs: number, paint: Paint): string[] {
  return [
    plainText(key.id),
    plainText(key.hint),
    plainText(key.name),
    scopesText(key),
    stateText(key, paint),
    minuteOf(key.createdAt).slice(0, 10),
    `${minuteOf(key.expiresAt)}, ${relativeTime(key.expiresAt, nowMs)}`,
    lastUseText(key, nowMs),
  ]
}

function blockOf(cells: readonly string[], paint: Paint): string[] {
  return linesOf(cells.map((cell, index) => [paint('bold', HEAD[index] ?? ''), cell]))
}

/** Without the spaces with which the library pads the last column. */
function linesOf(rows: readonly string[][]): string[] {
  const table = new Table({ chars: NO_BORDERS, style: PLAIN })
  table.push(...rows)
  return table
    .toString()
    .split('\n')
    .map(line => line.trimEnd())
}
