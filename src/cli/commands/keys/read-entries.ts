import { open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { parseJsonObject } from '../../../domain/form/json.ts'
import type { Host } from '../../../run/host.ts'
import { type CliError, usageError } from '../../cli.ts'

export const STANDARD_STREAM = '-'
const LINE_FEED = 10
/** An entry has some hundred bytes. */
const MAX_LINE_BYTES = 64_000
const BYTE_ORDER_MARK = /^\ufeff/
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export interface Line {
  /** From 1. */
  readonly number: number
  readonly entry: Readonly<Record<string, unknown>>
  /** In bytes. */
  readonly length: number
}

/**
 * The entries of a file, one a line. Empty lines are skipped. What is no JSON object ends the reading: the file is not what it
 * should be.
 * @throws CliError
 */
export async function* readEntries(file: string, host: Pick<Host, 'streams'>): AsyncGenerator<Line> {
  let number = 0
  for await (const bytes of readLines(readInput(file, host), MAX_LINE_BYTES)) {
    number++
    // Checked first: the part that was read may end within a character.
    if (bytes.length > MAX_LINE_BYTES) throw notAnObject(number)
    const text = decodeLine(bytes, number)
    if (text.trim() !== '') yield { number, entry: parseEntry(text, number), length: bytes.length }
  }
}

async function* readInput(file: string, { streams }: Pick<Host, 'streams'>): AsyncGenerator<Uint8Array> {
  try {
    // A stream without an encoding yields bytes.
    for await (const part of file === STANDARD_STREAM ? streams.input : await openFile(file))
      yield part as Uint8Array
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error
    const name = file === STANDARD_STREAM ? 'Standard input' : `The file ${file}`
    if (error.code === 'EISDIR')
      throw usageError(`${name} is a folder: name a file with one JSON object a line`)
    throw usageError(`${name} cannot be read (${error.code})`)
  }
}

/** A file is read as long as it is now: one that grows has its end, too. */
async function openFile(file: string): Promise<AsyncIterable<unknown>> {
  const handle = await open(file)
  const kind = await handle.stat()
  if (!kind.isFile()) return handle.createReadStream()
  if (kind.size > 0) return handle.createReadStream({ end: kind.size - 1 })
  await handle.close()
  return Readable.from([])
}

/** The text of the line is not repeated: it may hold a key. */
function decodeLine(bytes: Uint8Array, number: number): string {
  try {
    const text = utf8.decode(bytes)
    return number === 1 ? text.replace(BYTE_ORDER_MARK, '') : text
  } catch {
    throw usageError(`Line ${number} is not UTF-8: save the file as UTF-8`)
  }
}

function parseEntry(text: string, number: number): Line['entry'] {
  const entry = parseJsonObject(text)
  if (entry === null) throw notAnObject(number)
  return entry
}

function notAnObject(number: number): CliError {
  return usageError(`Line ${number} must be one JSON object of at most ${MAX_LINE_BYTES} bytes`)
}

/**
 * The lines of some bytes, however many there are. Of a line longer than `maxLength` bytes, no more than a part is read, which
 * is longer too, and it is the last one.
 */
export async function* readLines(
  parts: AsyncIterable<Uint8Array>,
  maxLength: number,
): AsyncGenerator<Uint8Array> {
  let rest: Uint8Array[] = []
  let length = 0
  for await (const part of parts) {
    let start = 0
    for (let end = part.indexOf(LINE_FEED); end !== -1; end = part.indexOf(LINE_FEED, start)) {
      yield Buffer.concat([...rest, part.subarray(start, end)])
      rest = []
      length = 0
      start = end + 1
    }
    if (start === part.length) continue
    rest.push(part.subarray(start))
    length += part.length - start
    if (length > maxLength) break
  }
  if (length > 0) yield Buffer.concat(rest)
}
