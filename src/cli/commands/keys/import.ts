import { open } from 'node:fs/promises'
import type { Command } from 'commander'
import { EXIT } from '../../../run/host.ts'
import { readLines } from '../../admin/read-lines.ts'
import { type ImportResponse, importResponse, readResponse } from '../../admin/responses.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../admin/session.ts'
import type { Cli } from '../../cli.ts'
import { CliError } from '../../cli-error.ts'
import { keyCount } from '../../output/key-text.ts'
import { plainText } from '../../output/text.ts'

/** Of one call; the admin API takes as many. */
const ENTRIES_AT_ONCE = 1000
/** The admin API takes 4 MiB. */
const MAX_BATCH_LENGTH = 1_000_000
/** An entry has some hundred characters. */
const MAX_LINE_LENGTH = 64_000
const CALL_DEADLINE_MS = 60_000

interface Line {
  /** From 1. */
  readonly number: number
  readonly entry: Readonly<Record<string, unknown>>
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
    .argument('<file>', 'the file, as `keys export` writes it')
  addAccessOptions(addJsonOption(command)).action((file: string, _, self: Command) =>
    importKeys(openSession(cli, self), file),
  )
}

/** Invalid lines are named as they are found, and do not keep the others out. */
async function importKeys({ client, host, json }: AdminSession, file: string): Promise<void> {
  const sums: Sums = { imported: 0, exists: 0, invalid: 0 }
  for await (const batch of batchesOf(linesOf(file))) {
    const body = { keys: batch.map(({ entry }) => entry) }
    const call = { method: 'POST', path: '/import', body, deadlineMs: CALL_DEADLINE_MS } as const
    const { results } = readResponse(client, importResponse, await client.send(call))
    if (results.length !== batch.length) throw client.notUnderstood()
    for (const [index, result] of results.entries()) {
      sums[result.status]++
      if (result.status === 'invalid') host.complain(`${invalidText(batch[index], result)}\n`)
    }
    if (!json) host.complain(`${keyCount(sums.imported + sums.exists + sums.invalid)} read\n`)
  }
  const { imported, exists, invalid } = sums
  host.write(
    json
      ? `${JSON.stringify(sums)}\n`
      : `Imported ${keyCount(imported)}; ${exists} existed already; ${invalid} invalid.\n`,
  )
  if (invalid > 0) throw new CliError(`${keyCount(invalid)} not imported`, EXIT.rejected)
}

function invalidText(line: Line | undefined, { error }: ImportResponse['results'][number]): string {
  return `Line ${line?.number ?? 0}: ${plainText(error ?? 'invalid')}`
}

/** Bounded in entries and length, however long the file is. */
async function* batchesOf(lines: AsyncIterable<Line & { readonly length: number }>): AsyncGenerator<Line[]> {
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

/** Empty lines are skipped. What is no JSON object stops the import: the file is not what it should be. */
async function* linesOf(file: string): AsyncGenerator<Line & { readonly length: number }> {
  const handle = await open(file).catch((error: NodeJS.ErrnoException) => {
    throw new CliError(`The file ${file} cannot be read (${error.code ?? error.message})`, EXIT.usage)
  })
  let number = 0
  for await (const text of readLines(handle.createReadStream({ encoding: 'utf8' }), MAX_LINE_LENGTH)) {
    number++
    if (text.trim() !== '') yield { number, entry: entryOf(text, number), length: text.length }
  }
}

/** The text of the line is not repeated: it may hold a key. */
function entryOf(text: string, number: number): Line['entry'] {
  const entry = text.length > MAX_LINE_LENGTH ? null : parsed(text)
  if (typeof entry === 'object' && entry !== null && !Array.isArray(entry)) {
    // The checks have shown it: a JSON object, its values unknown.
    return entry as Line['entry']
  }
  const advice = `must be one JSON object of at most ${MAX_LINE_LENGTH} characters. The lines of earlier batches are imported`
  throw new CliError(`Line ${number} ${advice}; correct it and repeat the import`, EXIT.usage)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
