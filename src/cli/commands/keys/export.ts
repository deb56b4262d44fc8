import { link, open, rename, rm, stat } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import type { Command } from 'commander'
import { EXIT, type Host } from '../../../run/host.ts'
import { type AdminClient, NoResponseError } from '../../admin/client.ts'
import { addAccessOptions, openSession } from '../../admin/session.ts'
import { type Cli, CliError } from '../../cli.ts'
import { keyCount } from '../../output/key-text.ts'

const STANDARD_OUTPUT = '-'
const OWNER_ONLY = 0o600
const LINE_FEED = 10

/** `postern keys export` */
export function addExport(keys: Command, cli: Cli): void {
  const command = keys
    .command('export')
    .description('save every key with its digest, one JSON object a line; no secret is in it')
    .argument('<file>', 'a new file, which only you can read; - for standard output')
    .option('--force', 'replace the file if it exists')
  addAccessOptions(command).action(async (file: string, { force }: { force?: boolean }, self: Command) => {
    const { client, host } = openSession(cli, self)
    const count = { keys: 0 }
    const parts = wholeLines(client, count)
    if (file === STANDARD_OUTPUT) await pipeline(parts, host.streams.output, { end: false })
    else await saveNew(file, parts, force === true)
    reportSaved(host, file, count.keys)
  })
}

function reportSaved(host: Host, file: string, keys: number): void {
  host.complain(`Exported ${keyCount(keys)}${file === STANDARD_OUTPUT ? '' : ` to ${file}`}\n`)
}

/** @throws CliError unless the export ends as it should */
async function* wholeLines(client: AdminClient, count: { keys: number }): AsyncGenerator<Uint8Array> {
  const brokenOff = () => {
    const message = `The export broke off after ${count.keys} keys: it is not whole. Repeat it`
    return new CliError(message, EXIT.unavailable)
  }
  let last = LINE_FEED
  try {
    for await (const part of client.download('/keys/export')) {
      for (const byte of part) if (byte === LINE_FEED) count.keys++
      last = part.at(-1) ?? last
      yield part
    }
  } catch (error) {
    throw error instanceof NoResponseError && count.keys > 0 ? brokenOff() : error
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
