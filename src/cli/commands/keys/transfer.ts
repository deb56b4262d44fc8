import { link, open, rename, rm, stat } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Command } from 'commander'
import { type Static, Type } from 'typebox'
import { EXIT, type Host } from '../../../run/host.ts'
import { type Cli, CliError } from '../../cli.ts'
import type { AdminClient } from '../../client/client.ts'
import { NoResponseError } from '../../client/failures.ts'
import { count, readResponse } from '../../client/responses.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../client/session.ts'
import { createProgress } from '../../output/progress.ts'
import { keyCount, plainText } from '../../text.ts'

const STANDARD_STREAM = '-'
const OWNER_ONLY = 0o600
const LINE_FEED = 10
/** An entry has some hundred bytes. */
const MAX_LINE_BYTES = 64_000
const BYTE_ORDER_MARK = /^\ufeff/
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
/** Of one call; the admin API takes as many. */
const ENTRIES_AT_ONCE = 1000
/** The admin API takes 4 MiB. */
const MAX_BATCH_LENGTH = 1_000_000
/** Of a call that writes many rows, or many records to Redis. */
const CALL_DEADLINE_MS = 60_000

const importResponse = Type.Object({
  results: Type.Array(
    Type.Object({
      status: Type.Union([Type.Literal('imported'), Type.Literal('exists'), Type.Literal('invalid')]),
      error: Type.Optional(Type.String()),
    }),
  ),
})
type ImportResponse = Static<typeof importResponse>
const syncResponse = Type.Object({
  synced: count,
  /** Left out of so many keys that counting them takes long. */
  total: Type.Optional(count),
  cursor: Type.Optional(Type.String()),
})

/** `postern keys export` */
export function addExport(keys: Command, cli: Cli): void {
  const command = keys
    .command('export')
    .description('save every key with its digest, one JSON object a line; no secret is in it')
    .argument('<file>', 'a new file, which only you can read; - for standard output')
    .option('--force', 'replace the file if it exists')
  addAccessOptions(command).action(async (file: string, { force }: { force?: boolean }, self: Command) => {
    const { client, host } = openSession(cli, self)
    const exported = { keys: 0 }
    const parts = wholeLines(client, exported)
    if (file === STANDARD_STREAM) await pipeline(parts, host.streams.output, { end: false })
    else await saveNew(file, parts, force === true)
    reportSaved(host, file, exported.keys)
  })
}

function reportSaved(host: Host, file: string, keys: number): void {
  host.writeError(`Exported ${keyCount(keys)}${file === STANDARD_STREAM ? '' : ` to ${file}`}\n`)
}

/** @throws CliError unless the export ends as it should */
async function* wholeLines(client: AdminClient, exported: { keys: number }): AsyncGenerator<Uint8Array> {
  const brokenOff = () => {
    const message = `The export broke off after ${exported.keys} keys: it is not whole. Repeat it`
    return new CliError(message, EXIT.unavailable)
  }
  let last = LINE_FEED
  try {
    for await (const part of client.download('/keys/export')) {
      for (const byte of part) if (byte === LINE_FEED) exported.keys++
      last = part.at(-1) ?? last
      yield part
    }
  } catch (error) {
    throw error instanceof NoResponseError && exported.keys > 0 ? brokenOff() : error
  }
  if (last !== LINE_FEED) throw brokenOff()
}

/** The file appears, or is replaced, only once it is whole. */
async function saveNew(file: string, parts: AsyncIterable<Uint8Array>, force: boolean): Promise<void> {
  const unfinished = `${file}.part`
  try {
    if (!force && (await exists(file))) throw existsAlready(file)
    // What an earlier attempt left. A new file follows no link, and gets the mode.
    await rm(unfinished, { force: true })
    const handle = await open(unfinished, 'wx', OWNER_ONLY)
    try {
      await pipeline(parts, handle.createWriteStream({ flush: true }))
      // Unlike a rename, a link replaces nothing.
      await (force ? rename(unfinished, file) : link(unfinished, file))
    } finally {
      await rm(unfinished, { force: true })
    }
  } catch (error) {
    if (error instanceof CliError || !(error instanceof Error && 'code' in error)) throw error
    if (error.code === 'EEXIST') throw existsAlready(file)
    throw new CliError(`The file ${file} cannot be written (${error.code})`, EXIT.failure)
  }
}

function existsAlready(file: string): CliError {
  return new CliError(`The file ${file} exists already: name another one, or add --force`, EXIT.usage)
}

function exists(file: string): Promise<boolean> {
  return stat(file).then(
    () => true,
    () => false,
  )
}

interface Line {
  /** From 1. */
  readonly number: number
  readonly entry: Readonly<Record<string, unknown>>
  /** In bytes. */
  readonly length: number
}

interface Sums {
  imported: number
  exists: number
  invalid: number
}

/** `postern keys import` */
export function addImport(keys: Command, cli: Cli): void {
  const command = keys
    .command('import')
    .description('import keys of another system by their digests, from a file with one JSON object a line')
    .argument('<file>', 'the file, as `keys export` writes it; - for standard input')
  addAccessOptions(addJsonOption(command)).action((file: string, _, self: Command) =>
    importKeys(openSession(cli, self), file),
  )
}

/** Invalid lines are named as they are found, and do not keep the others out. */
async function importKeys({ client, host, json }: AdminSession, file: string): Promise<void> {
  const sums: Sums = { imported: 0, exists: 0, invalid: 0 }
  let sent: readonly Line[] = []
  let lastDone = 0
  try {
    for await (const batch of splitIntoBatches(readEntries(file, host))) {
      sent = batch
      const body = { keys: batch.map(({ entry }) => entry) }
      const call = { method: 'POST', path: '/import', body, deadlineMs: CALL_DEADLINE_MS } as const
      const { results } = readResponse(client, importResponse, await client.send(call))
      if (results.length !== batch.length) throw client.notUnderstood()
      for (const [index, result] of results.entries()) {
        sums[result.status]++
        if (result.status === 'invalid') host.writeError(`${invalidText(batch[index], result)}\n`)
      }
      lastDone = batch.at(-1)?.number ?? lastDone
      sent = []
      if (!json) host.writeError(`${keyCount(sums.imported + sums.exists + sums.invalid)} read\n`)
    }
  } catch (error) {
    if (!(error instanceof CliError)) throw error
    throw new CliError(`${error.message}. ${leftText(sums, lastDone, sent, error)}`, error.exitCode)
  }
  const { imported, exists, invalid } = sums
  if (lastDone === 0) host.writeError('There is no line with a key\n')
  host.write(
    json
      ? `${JSON.stringify(sums)}\n`
      : `Imported ${keyCount(imported)}; ${exists} existed already; ${invalid} invalid.\n`,
  )
  if (invalid > 0) throw new CliError(`${keyCount(invalid)} not imported`, EXIT.rejected)
}

/** What an import that failed has done. @param sent lines of the call that failed; empty if none did */
function leftText(sums: Sums, lastDone: number, sent: readonly Line[], error: CliError): string {
  const { imported, exists, invalid } = sums
  const done =
    lastDone === 0
      ? 'Before that, nothing was imported'
      : `Before that, of lines 1 to ${lastDone}, ${keyCount(imported)} imported; ${exists} existed already; ${invalid} invalid`
  const [first, last] = [sent[0]?.number, sent.at(-1)?.number]
  const isUnknown =
    error instanceof NoResponseError ? error.mayHaveBeenProcessed : error.exitCode === EXIT.unavailable
  const unknown = first !== undefined && isUnknown ? `. Lines ${first} to ${last} may have been imported` : ''
  return `${done}${unknown}. Then repeat the import: keys that exist stay as they are`
}

function invalidText(line: Line | undefined, { error }: ImportResponse['results'][number]): string {
  return `Line ${line?.number ?? 0}: ${plainText(error ?? 'invalid')}`
}

/** Bounded in entries and length, however long the file is. */
async function* splitIntoBatches(lines: AsyncIterable<Line>): AsyncGenerator<Line[]> {
  let batch: Line[] = []
  let length = 0
  for await (const line of lines) {
    if (batch.length === ENTRIES_AT_ONCE || length + line.length > MAX_BATCH_LENGTH) {
      yield batch
      batch = []
      length = 0
    }
    batch.push(line)
    length += line.length
  }
  if (batch.length > 0) yield batch
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
    if (error.code === 'EISDIR') throw wrong(`${name} is a folder: name a file with one JSON object a line`)
    throw wrong(`${name} cannot be read (${error.code})`)
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
    throw wrong(`Line ${number} is not UTF-8: save the file as UTF-8`)
  }
}

function parseEntry(text: string, number: number): Line['entry'] {
  const entry = parsed(text)
  if (typeof entry === 'object' && entry !== null && !Array.isArray(entry)) {
    // The checks have shown it: a JSON object, its values unknown.
    return entry as Line['entry']
  }
  throw notAnObject(number)
}

function notAnObject(number: number): CliError {
  return wrong(`Line ${number} must be one JSON object of at most ${MAX_LINE_BYTES} bytes`)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

function wrong(message: string): CliError {
  return new CliError(message, EXIT.usage)
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

/** `postern keys sync` */
export function addSync(keys: Command, cli: Cli): void {
  const sync = keys.command('sync').description('rewrite every record in Redis from the database')
  addAccessOptions(addJsonOption(sync)).action((_, self: Command) => syncKeys(openSession(cli, self)))
}

/** Page by page, so that no request takes long and progress can be shown. */
async function syncKeys({ client, host, json }: AdminSession): Promise<void> {
  const progress = createProgress(host.streams.errors, json)
  let synced = 0
  let total = 0
  let cursor: string | undefined
  try {
    do {
      const body = cursor === undefined ? {} : { cursor }
      const call = { method: 'POST', path: '/sync', body, deadlineMs: CALL_DEADLINE_MS } as const
      const page = readResponse(client, syncResponse, await client.send(call))
      if (page.cursor === cursor && cursor !== undefined) throw client.notUnderstood()
      synced += page.synced
      total = page.total ?? synced
      cursor = page.cursor
      progress.show(synced, total)
    } while (cursor !== undefined)
  } finally {
    progress.end()
  }
  host.write(
    json
      ? `${JSON.stringify({ synced, total })}\n`
      : `Wrote ${keyCount(synced)} from the database to Redis.\n`,
  )
}
