import { setTimeout } from 'node:timers/promises'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { type Static, Type } from 'typebox'
import { auditEntry } from '../../console/platform/http/items.ts'
import { systemClock } from '../../domain/clock.ts'
import { EXIT } from '../../run/host.ts'
import {
  type Cli,
  CliError,
  type Define,
  minuteText,
  plainText,
  secondText,
  usageError,
  warn,
} from '../cli.ts'
import { paged, readPages } from '../client/client.ts'
import { type AdminSession, addAccessOptions, openSession } from '../client/session.ts'
import { addSettings, loadOrThrow } from '../options/settings-flags.ts'
import { checkKeyId, checkWorkspace, givenParameters, parseInstantArgument } from '../options/values.ts'
import {
  addListOptions,
  type Column,
  chooseOutputFormat,
  type ListView,
  limitOption,
  type OutputFormat,
  printList,
} from '../output/list.ts'

const DEFAULT_LIMIT = 100
const POLL_MS = 1000
/** A console that restarts answers again within this time. */
const AWAY_MS = 60_000
/** Consoles write entries with clocks of their own: one that is later by its clock may arrive before an earlier one. */
const OVERLAP_MS = 10_000
/** Of entries that the next reading hardly ever has. */
const IDS_KEPT = 10_000
const HASH = /^[0-9a-f]{64}$/

type ShownEntry = Static<typeof auditEntry>

const entriesResponse = Type.Object({ entries: Type.Array(auditEntry), ...paged.properties })

/** `postern audit …` */
export const define: Define = (audit, cli) => {
  addList(audit, cli)
  addVerify(audit, cli)
}

interface Conditions {
  readonly workspace?: string
  readonly key?: string
  readonly actor?: string
  readonly action?: string
  readonly from?: string
  readonly to?: string
}
interface ListOptions extends Conditions {
  readonly limit?: number
  readonly follow?: boolean
}

/** Audit entries as `audit list` shows them. Ids of keys are never cut: people copy them. */
const COLUMNS: readonly Column<ShownEntry>[] = [
  { title: 'AT (UTC)', text: ({ at }) => minuteText(at) },
  { title: 'ACTION', text: ({ action }) => plainText(action) },
  { title: 'KEY', text: ({ keyId }) => textOrDash(keyId) },
  { title: 'WORKSPACE', text: ({ workspaceId }) => textOrDash(workspaceId), atLeast: 10, leaves: 1 },
  { title: 'ACTOR', text: ({ actor }) => plainText(actor), atLeast: 8, leaves: 2 },
  { title: 'ENTRY', text: ({ id }) => plainText(id), wideOnly: true },
  { title: 'DETAIL', text: ({ detail }) => plainText(JSON.stringify(detail)), wideOnly: true },
]

const VIEW: ListView<ShownEntry> = {
  name: 'entries',
  columns: COLUMNS,
  id: ({ id }) => id,
  whenEmpty: 'No entries of the audit log match.',
}

/** `postern audit list` */
function addList(audit: Command, cli: Cli): void {
  const list = audit
    .command('list', { isDefault: true })
    .description('list who changed what, newest first')
    .option('--workspace <id>', 'entries of this workspace')
    .option('--key <id>', 'entries about this key')
    .option('--actor <actor>', 'entries by this actor, such as token:tok_… or person:…')
    .option('--action <action>', 'entries with this action, such as key.revoked')
    .option('--from <time>', 'entries at or after this instant', parseInstantArgument)
    .option('--to <time>', 'entries before this instant', parseInstantArgument)
    .addOption(limitOption(`number of entries, at most (default: ${DEFAULT_LIMIT})`))
    .addOption(
      new Option('--follow', 'print the newest entries oldest first, then new ones as they come').conflicts(
        'to',
      ),
    )
  addAccessOptions(addListOptions(list)).action(async (options: ListOptions, self: Command) => {
    const query = createQuery(options)
    const format = chooseOutputFormat(self)
    const session = openSession(cli, self)
    if (options.follow === true) return follow(session, format, query, options.limit ?? DEFAULT_LIMIT)
    const pages = readNewest(session, query, options.limit ?? DEFAULT_LIMIT)
    return printList(session.host, format, VIEW, pages)
  })
}

function createQuery({ workspace, key, actor, action, from, to }: Conditions): Record<string, string> {
  const workspaceId = workspace === undefined ? undefined : checkWorkspace(workspace)
  const keyId = key === undefined ? undefined : checkKeyId(key)
  return givenParameters({ workspaceId, keyId, actor, action, from, to })
}

function readEntries({ client }: AdminSession, query: Record<string, string>) {
  return readPages(client, { path: '/audit', query }, entriesResponse, ({ entries }) => entries)
}

/** The newest entries. Says so if there are more: an audit log has no end. */
async function* readNewest(session: AdminSession, query: Record<string, string>, limit: number) {
  let left = limit
  for await (const entries of readEntries(session, query)) {
    if (entries.length > left) {
      yield entries.slice(0, left)
      const text = `More entries match than ${limit}: raise --limit, or narrow with --from and --to.`
      warn(session.host, text, 'more_entries')
      return
    }
    left -= entries.length
    yield entries
  }
}

async function follow(
  session: AdminSession,
  format: OutputFormat,
  query: Record<string, string>,
  limit: number,
): Promise<void> {
  if (format === 'json') throw usageError('--follow has no end: use -o ndjson')
  const { host } = session
  const first: ShownEntry[] = []
  for await (const entries of readEntries(session, query)) {
    first.push(...entries.slice(0, limit - first.length))
    if (first.length >= limit) break
  }
  const readSince = async (fromMs: number | null) => {
    // Entries of before --from were not asked for.
    const isEarlier = fromMs === null || fromMs < Date.parse(query['from'] ?? '')
    const since = isEarlier ? {} : { from: new Date(fromMs).toISOString() }
    const read: ShownEntry[] = []
    for await (const entries of readEntries(session, { ...query, ...since })) read.push(...entries)
    return read
  }
  const nowMs = () => session.client.consoleMs ?? Number.POSITIVE_INFINITY
  await followEntries(first, { readSince, nowMs }, entry => host.write(`${formatEntry(format, entry)}\n`))
}

function formatEntry(format: OutputFormat, entry: ShownEntry): string {
  if (format === 'ids') return entry.id
  if (format === 'ndjson') return JSON.stringify(entry)
  const line = entryLine(entry)
  return format === 'wide' ? `${line}  ${plainText(JSON.stringify(entry.detail))}` : line
}

/** An entry that is followed: its line is printed before the next entry is known, so that no table can be fitted. */
function entryLine(entry: ShownEntry): string {
  const { at, action, keyId, workspaceId, actor } = entry
  return [
    secondText(at),
    plainText(action),
    textOrDash(keyId),
    textOrDash(workspaceId),
    plainText(actor),
  ].join('  ')
}

function textOrDash(text: string | null): string {
  return text === null ? '-' : plainText(text)
}

interface FollowedLog {
  /** Every entry from an instant on, newest first. */
  readonly readSince: (fromMs: number | null) => Promise<readonly ShownEntry[]>
  /** The clock of the console. */
  readonly nowMs: () => number
}

/**
 * Prints each entry once, until the process is ended. A console that does not answer for a minute ends it, too.
 * @param first the entries to begin with, newest first
 */
async function followEntries(
  first: readonly ShownEntry[],
  { readSince, nowMs }: FollowedLog,
  print: (entry: ShownEntry) => void,
): Promise<never> {
  let { entries, printed } = newEntries(NOTHING_PRINTED, first, nowMs())
  let lastResponseMs = systemClock.monotonicMs()
  for (;;) {
    for (const entry of entries) print(entry)
    entries = []
    await setTimeout(POLL_MS)
    try {
      const next = newEntries(printed, await readSince(printed.fromMs), nowMs())
      entries = next.entries
      printed = next.printed
      lastResponseMs = systemClock.monotonicMs()
    } catch (error) {
      const isUnavailable = error instanceof CliError && error.exitCode === EXIT.unavailable
      if (!isUnavailable || systemClock.monotonicMs() - lastResponseMs > AWAY_MS) throw error
    }
  }
}

/** What was printed, as far as the next reading overlaps with it. */
interface Printed {
  /** Where the next reading starts; null before the first entry. */
  readonly fromMs: number | null
  /** The latest entry that was read. */
  readonly newestMs: number
  readonly ids: ReadonlySet<string>
}

export const NOTHING_PRINTED: Printed = { fromMs: null, newestMs: 0, ids: new Set() }

/**
 * The entries that were not printed before, oldest first.
 * @param read what the console has since `printed.fromMs`, newest first
 * @param nowMs by the clock of the console: after it was set back, entries of before are later than new ones
 */
export function newEntries(
  printed: Printed,
  read: readonly ShownEntry[],
  nowMs: number,
): { readonly entries: readonly ShownEntry[]; readonly printed: Printed } {
  // Written before the clock was set back; beyond --limit, it was not printed.
  const isOld = (atMs: number) => atMs > nowMs + OVERLAP_MS && atMs < printed.newestMs - OVERLAP_MS
  const entries = read.filter(({ id, at }) => !printed.ids.has(id) && !isOld(Date.parse(at))).reverse()
  // Not by spreading: a call takes about 100,000 arguments.
  const newestMs = read.reduce((newest, { at }) => Math.max(newest, Date.parse(at)), printed.newestMs)
  const fromMs =
    read.length === 0
      ? printed.fromMs
      : Math.min(Math.max(printed.fromMs ?? 0, newestMs - OVERLAP_MS), nowMs - OVERLAP_MS)
  const kept = read.filter(({ at }) => fromMs === null || Date.parse(at) >= fromMs)
  // Once the clock is set back, the next reading begins before this one did.
  const earlier = [...printed.ids, ...entries.map(({ id }) => id)].slice(-IDS_KEPT)
  const ids = new Set([...earlier, ...kept.map(({ id }) => id)])
  return { entries, printed: { fromMs, newestMs, ids } }
}

interface VerifyOptions {
  readonly head?: string
}

/** `postern audit verify`, which reads the database itself. */
function addVerify(audit: Command, cli: Cli): void {
  const verify = audit
    .command('verify')
    .description(
      'check the audit chain in the configured database, read-only; exit 0 only if all of it was verified',
    )
    .option('--head <hash>', 'a head printed earlier and kept elsewhere: it must be in the chain', checkHash)
  const shown = ['--database-url', '--database-url-file', '--keys-signing-secrets-file']
  addSettings(verify, cli, shown).action(async ({ head }: VerifyOptions, self: Command) => {
    const config = loadOrThrow(cli, self, [])
    const { runAuditVerify } = await import('./audit-verify.ts')
    await runAuditVerify(cli.host, config, { keptHead: head ?? null, nowMs: systemClock.wallMs() })
  })
}

function checkHash(text: string): string {
  if (HASH.test(text)) return text
  throw new InvalidArgumentError('It must be 64 lower-case hexadecimal digits.')
}
