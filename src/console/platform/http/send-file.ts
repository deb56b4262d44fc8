import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { unauthenticated } from './authenticate-programs.ts'

/**
 * Rows of one part. The objects of a part live while the client takes the one before, and large parts reach the heap of
 * long-lived objects, which is cleaned up late: an export left up to 56 MB in it with 25 rows, and over 62 MB with 100.
 */
export const ROWS_AT_ONCE = 25

/**
 * Streams lines. The next part is read only once the client has taken the one before; a HEAD reads none. Once the caller's
 * token or session has ended, the connection breaks off: what was sent never looks whole.
 * @param readParts each part is some whole lines
 */
function sendLines(reply: FastifyReply, readParts: () => AsyncGenerator<string>, type: string): FastifyReply {
  // Fastify would read the whole stream for a HEAD.
  const parts = reply.request.method === 'HEAD' ? [] : whileAdmitted(reply.request, readParts())
  return reply.type(type).send(Readable.from(parts, { objectMode: true, highWaterMark: 1 }))
}

async function* whileAdmitted(
  { isStillAdmitted }: FastifyRequest,
  parts: AsyncGenerator<string>,
): AsyncGenerator<string> {
  for await (const part of parts) {
    if (isStillAdmitted === null || !(await isStillAdmitted())) {
      throw unauthenticated('The token or session has ended')
    }
    yield part
  }
}

export const FILE_FORMATS = ['csv', 'ndjson'] as const
export type FileFormat = (typeof FILE_FORMATS)[number]

interface ListFile<Item> {
  /** Without its ending. */
  readonly name: string
  readonly columns: readonly string[]
  /** Texts by column. */
  readonly toCells: (item: Item) => Readonly<Record<string, unknown>>
  /** As the admin API has it. */
  readonly toJson: (item: Item) => object
  readonly readParts: () => AsyncGenerator<readonly Item[]>
}

/** Each part is read when the client has taken the one before. */
export function sendFile<Item>(reply: FastifyReply, file: ListFile<Item>, format: FileFormat): FastifyReply {
  const { name, columns, toCells, toJson, readParts } = file
  void reply.header('content-disposition', `attachment; filename="${name}.${format}"`)
  if (format === 'ndjson') return sendJsonLines(reply, readParts, toJson)
  const toLine = (item: Item) => csvLine(columns, toCells(item))
  const head = `${BYTE_ORDER_MARK}${columns.join(',')}\r\n`
  return sendLines(reply, () => linesOf(readParts(), toLine, head), 'text/csv; charset=utf-8; header=present')
}

/** Each item as a line of JSON; each part is read when the client has taken the one before. */
export function sendJsonLines<Item>(
  reply: FastifyReply,
  readParts: () => AsyncGenerator<readonly Item[]>,
  toJson: (item: Item) => object,
): FastifyReply {
  const toLine = (item: Item) => `${JSON.stringify(toJson(item))}\n`
  return sendLines(reply, () => linesOf(readParts(), toLine), 'application/x-ndjson; charset=utf-8')
}

async function* linesOf<Item>(
  parts: AsyncGenerator<readonly Item[]>,
  toLine: (item: Item) => string,
  head = '',
): AsyncGenerator<string> {
  if (head !== '') yield head
  for await (const part of parts) if (part.length > 0) yield part.map(toLine).join('')
}

function csvLine(columns: readonly string[], cells: Readonly<Record<string, unknown>>): string {
  return `${columns.map(column => csvCell(cells[column])).join(',')}\r\n`
}

/** Without it Excel takes the text for one in the character set of its language. */
const BYTE_ORDER_MARK = '\u{feff}'
/** A spreadsheet takes such a cell for a formula, some also by a character in its wide form; the apostrophe makes it a text. */
const FORMULA = /^[=+\-@＝＋－＠\t\r\n]/

/** As RFC 4180, section 2, writes a field. */
function csvCell(value: unknown): string {
  const text = typeof value === 'string' ? value : ''
  const plain = FORMULA.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}
