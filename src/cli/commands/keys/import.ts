import type { Command } from 'commander'
import { EXIT } from '../../../run/host.ts'
import { NoResponseError } from '../../admin/client.ts'
import { type ImportResponse, importResponse, readResponse } from '../../admin/responses.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../admin/session.ts'
import { type Cli, CliError } from '../../cli.ts'
import { keyCount } from '../../output/key-text.ts'
import { plainText } from '../../output/text.ts'
import { type Line, readEntries } from './import-file.ts'

/** Of one call; the admin API takes as many. */
const ENTRIES_AT_ONCE = 1000
/** The admin API takes 4 MiB. */
const MAX_BATCH_LENGTH = 1_000_000
const CALL_DEADLINE_MS = 60_000

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
    for await (const batch of batchesOf(readEntries(file, host))) {
      sent = batch
      const body = { keys: batch.map(({ entry }) => entry) }
      const call = { method: 'POST', path: '/import', body, deadlineMs: CALL_DEADLINE_MS } as const
      const { results } = readResponse(client, importResponse, await client.send(call))
      if (results.length !== batch.length) throw client.notUnderstood()
      for (const [index, result] of results.entries()) {
        sums[result.status]++
        if (result.status === 'invalid') host.complain(`${invalidText(batch[index], result)}\n`)
      }
      lastDone = batch.at(-1)?.number ?? lastDone
      sent = []
      if (!json) host.complain(`${keyCount(sums.imported + sums.exists + sums.invalid)} read\n`)
    }
  } catch (error) {
    if (!(error instanceof CliError)) throw error
    throw new CliError(`${error.message}. ${leftText(sums, lastDone, sent, error)}`, error.exitCode)
  }
  const { imported, exists, invalid } = sums
  if (lastDone === 0) host.complain('There is no line with a key\n')
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
async function* batchesOf(lines: AsyncIterable<Line>): AsyncGenerator<Line[]> {
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
