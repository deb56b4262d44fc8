import { lstat, open, rename, rm, stat, writeFile } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import type { Command } from 'commander'
import { Type } from 'typebox'
import { EXIT, type Host } from '../../../run/host.ts'
import { type Cli, CliError, keyCount, plainText, usageError } from '../../cli.ts'
import { type AdminClient, count, readResponse } from '../../client/client.ts'
import { NoResponseError } from '../../client/failures.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../client/session.ts'
import { dryRunOption, NOTHING_CHANGED, printDryRun, SHOWN_AT_MOST } from '../../output/key-text.ts'
import { createProgress } from '../../output/terminal.ts'
import { type Line, readEntries, STANDARD_STREAM } from './read-entries.ts'

const OWNER_ONLY = 0o600
const LINE_FEED = 10
/** Invalid lines that `--json` names; `invalid` counts all. */
const MAX_NAMED = 100
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
  // Loaded where it is used: no other command on keys needs code of the console.
  const { existsAlready, giveNewName } = await import('../../../console/backup/new-name.ts')
  try {
    if (!force && (await exists(file))) throw usageError(existsAlready(file))
    // What an earlier attempt left. A new file follows no link, and gets the mode.
    await rm(unfinished, { force: true })
    const handle = await open(unfinished, 'wx', OWNER_ONLY)
    const { ino } = await handle.stat()
    // Until it is closed, no other file has its number.
    const isThere = () =>
      lstat(unfinished).then(
        found => found.ino === ino,
        () => false,
      )
    try {
      await writeFile(handle, parts)
      await handle.sync()
      if (!(await isThere())) throw replacedMeanwhile(file)
      if (force) await rename(unfinished, file)
      else if (!(await giveNewName(unfinished, file))) throw usageError(existsAlready(file))
    } finally {
      if (await isThere()) await rm(unfinished, { force: true })
      await handle.close()
    }
  } catch (error) {
    if (error instanceof CliError || !(error instanceof Error && 'code' in error)) throw error
    if (error.code === 'EEXIST') throw replacedMeanwhile(file)
    throw new CliError(`The file ${file} cannot be written (${error.code})`, EXIT.failure)
  }
}

function replacedMeanwhile(file: string): CliError {
  const message = `Another export to ${file} has begun meanwhile, so this one is not saved`
  return new CliError(message, EXIT.failure)
}

function exists(file: string): Promise<boolean> {
  return stat(file).then(
    () => true,
    () => false,
  )
}

interface Sums {
  imported: number
  exists: number
  invalid: number
}

interface InvalidLine {
  readonly line: number
  readonly error: string
}

/** `postern keys import` */
export function addImport(keys: Command, cli: Cli): void {
  const command = keys
    .command('import')
    .description('import keys of another system by their digests, from a file with one JSON object a line')
    .argument('<file>', 'the file, as `keys export` writes it; - for standard input')
    .addOption(dryRunOption())
  addAccessOptions(addJsonOption(command)).action(
    (file: string, { dryRun }: { dryRun?: boolean }, self: Command) =>
      importKeys(openSession(cli, self), file, dryRun === true),
  )
}

/** Invalid lines are named as they are found, or at the end for a program, and do not keep the others out. */
async function importKeys(session: AdminSession, file: string, dryRun: boolean): Promise<void> {
  const { client, host, json } = session
  const sums: Sums = { imported: 0, exists: 0, invalid: 0 }
  const errors: InvalidLine[] = []
  const first: Line[] = []
  let sent: readonly Line[] = []
  let lastDone = 0
  try {
    for await (const batch of splitIntoBatches(readEntries(file, host))) {
      sent = batch
      const body = { keys: batch.map(({ entry }) => entry) }
      const path = dryRun ? '/import/check' : '/import'
      const call = { method: 'POST', path, body, deadlineMs: CALL_DEADLINE_MS } as const
      const { results } = readResponse(client, importResponse, await client.send(call))
      if (results.length !== batch.length) throw client.notUnderstood()
      for (const [index, result] of results.entries()) {
        sums[result.status]++
        const line = batch[index]
        if (line !== undefined && result.status === 'imported' && first.length < SHOWN_AT_MOST)
          first.push(line)
        if (result.status !== 'invalid') continue
        const invalid = { line: line?.number ?? 0, error: plainText(result.error ?? 'invalid') }
        if (json && errors.length < MAX_NAMED) errors.push(invalid)
        if (!json) host.writeError(`Line ${invalid.line}: ${invalid.error}\n`)
      }
      lastDone = batch.at(-1)?.number ?? lastDone
      sent = []
      if (!json) host.writeError(`${keyCount(sums.imported + sums.exists + sums.invalid)} read\n`)
    }
  } catch (error) {
    if (!(error instanceof CliError)) throw error
    const left = dryRun ? NOTHING_CHANGED : leftText(sums, lastDone, sent, error)
    throw new CliError(`${error.message}. ${left}`, error.exitCode, error.code, {
      invalid: sums.invalid,
      errors,
    })
  }
  if (lastDone === 0 && !json) host.writeError('There is no line with a key\n')
  if (dryRun) printImportPlan(session, { ...sums, errors }, first)
  else host.write(json ? `${JSON.stringify({ ...sums, errors })}\n` : `Imported ${sumsText(sums)}.\n`)
  if (sums.invalid > 0) throw new CliError(`${keyCount(sums.invalid)} not imported`, EXIT.rejected)
}

function sumsText({ imported, exists, invalid }: Sums): string {
  return `${keyCount(imported)}; ${exists} existed already; ${invalid} invalid`
}

/** @param first lines of keys that would be imported */
function printImportPlan(
  session: AdminSession,
  sums: Sums & { readonly errors: readonly InvalidLine[] },
  first: readonly Line[],
): void {
  const lines = first.map(({ number, entry: { hint, name, workspaceId } }) => {
    // The console has accepted these fields: they are texts, and none is a key.
    const [shownHint, shownName, workspace] = [hint, name, workspaceId].map(text => plainText(String(text)))
    return `line ${number}: ${shownHint}, ${shownName}, workspace ${workspace}`
  })
  const facts = { ...sums, lines: first.map(({ number }) => number) }
  printDryRun(session, facts, `Would import ${sumsText(sums)}`, lines, sums.imported)
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
