import { type Command, Option } from 'commander'
import { systemClock } from '../../../domain/clock.ts'
import { plainPasted, plainSearch } from '../../../domain/form/text.ts'
import { KEY_STATES } from '../../../domain/key/key-record.ts'
import { digestKey, keyPattern } from '../../../domain/key/secret.ts'
import { type Cli, type Define, usageError } from '../../cli.ts'
import { keyResponse, keysResponse, readPages, readResponse, type ShownKey } from '../../client/client.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../client/session.ts'
import { checkKeyId, checkWorkspace, givenParameters, parseDuration } from '../../options/values.ts'
import { keyColumns, keyFacts } from '../../output/key-text.ts'
import {
  addListOptions,
  chooseOutputFormat,
  firstItems,
  type ListView,
  limitOption,
  type OutputFormat,
  printList,
} from '../../output/list.ts'
import { factLines, paintFor, readSecret } from '../../output/terminal.ts'
import { addEdit, addSteps } from './edit.ts'
import { addIssue, addRotate } from './issue.ts'
import { addRevoke, addRevokeAll } from './revoke.ts'
import { addExport, addImport, addSync } from './transfer.ts'
import { addUsage } from './usage.ts'

const SORTS = ['createdAt', 'expiresAt', 'lastUsedAt', 'name'].flatMap(field => [field, `-${field}`])

const COMMANDS = [
  addIssue,
  addList,
  addShow,
  addFind,
  addUsage,
  addEdit,
  addRotate,
  addSteps,
  addRevoke,
  addRevokeAll,
  addSync,
  addImport,
  addExport,
  addPattern,
]

/** `postern keys …`: manages keys through the admin API. */
export const define: Define = (keys, cli) => {
  for (const add of COMMANDS) add(keys, cli)
}

interface SearchOptions {
  readonly state?: string
  readonly search?: string
  readonly scope?: string
  readonly plan?: string
  readonly sort?: string
  /** In seconds. */
  readonly unused?: number
}

/** The conditions of `GET /admin/v1/keys`. */
function addSearchOptions(command: Command): Command {
  return command
    .addOption(new Option('--state <state>', 'keys in this state').choices(KEY_STATES))
    .option(
      '--search <text>',
      'keys with this text in name, id, hint or description, in any case',
      plainSearch,
    )
    .option('--scope <scope>', 'keys with this scope')
    .option('--plan <name>', 'keys with this plan')
    .addOption(
      new Option(
        '--unused <duration>',
        'keys at least so old and not used for so long, such as 90d',
      ).argParser(parseDuration),
    )
    .addOption(
      new Option('--sort <field>', 'order, with "-" in front for descending (default: -createdAt)').choices(
        SORTS,
      ),
    )
}

/** @returns the query parameters of the admin API */
function createSearchQuery({
  state,
  search,
  scope,
  plan,
  sort,
  unused,
}: SearchOptions): Record<string, string> {
  // Also the age: a younger key may be about to be used.
  const unusedSince = unused === undefined ? undefined : beforeNow(unused)
  const times = { createdBefore: unusedSince, lastUsedBefore: unusedSince }
  return givenParameters({ state, q: search, scope, plan, sort, ...times })
}

function beforeNow(seconds: number): string {
  return new Date(systemClock.wallMs() - seconds * 1000).toISOString()
}

interface ListOptions extends SearchOptions {
  readonly workspace?: string
  readonly limit?: number
}

/** `postern keys list`: all pages, or the first keys. */
function addList(keys: Command, cli: Cli): void {
  const list = keys
    .command('list')
    .description('list keys, newest first; of all workspaces unless one is given')
    .option('--workspace <id>', 'workspace of the keys')
    .addOption(limitOption('number of keys, at most (default: all)'))
  addAccessOptions(addListOptions(addSearchOptions(list))).action(
    async (options: ListOptions, self: Command) => {
      const { workspace, limit, ...conditions } = options
      const workspaceId = workspace === undefined ? {} : { workspaceId: checkWorkspace(workspace) }
      const search = createSearchQuery(conditions)
      const { client, host } = openSession(cli, self)
      const query = { ...workspaceId, ...search }
      const pages = readPages(client, { path: '/keys', query }, keysResponse, page => page.keys)
      const hasConditions = Object.keys(search).some(name => name !== 'sort')
      const view = keyListView(workspace, hasConditions)
      await printList(host, chooseOutputFormat(self), view, firstItems(pages, limit))
    },
  )
}

function keyListView(workspace: string | undefined, hasConditions: boolean): ListView<ShownKey> {
  const place = workspace === undefined ? 'You can see' : `Workspace ${workspace} has`
  return {
    name: 'keys',
    columns: keyColumns({ ofOneWorkspace: workspace !== undefined }),
    id: ({ id }) => id,
    whenEmpty: hasConditions ? `${place} no keys that match.` : `${place} no keys.`,
  }
}

/** `postern keys show` */
function addShow(keys: Command, cli: Cli): void {
  const show = keys.command('show').description('show a key in full').argument('<id>', 'the key’s id (key_…)')
  addAccessOptions(addJsonOption(show)).action(async (text: string, _, self: Command) => {
    const id = checkKeyId(text)
    await showKey(openSession(cli, self), id)
  })
}

async function showKey({ client, host, json }: AdminSession, id: string): Promise<void> {
  const response = await client.send({ method: 'GET', path: `/keys/${id}` })
  const { key } = readResponse(client, keyResponse, response)
  if (json) return host.write(`${response.text}\n`)
  const paint = paintFor(host.streams.output, host)
  host.write(factLines(keyFacts(key, systemClock.wallMs(), paint), paint))
}

const KEY_AS_ARGUMENT =
  'find reads the key from standard input, such as `postern keys find < FILE`, or asks for it: other users of the machine can see a command line'

/** `postern keys find`: whose key is this? */
function addFind(keys: Command, cli: Cli): void {
  const find = keys
    .command('find')
    .description('find the key that is on standard input; only its SHA-256 digest is sent')
    .option('--hint <hint>', 'list the keys with this hint, such as wsk_…x7Qf, instead', plainPasted)
    .allowExcessArguments()
  addAccessOptions(addListOptions(find)).action(async ({ hint }: { hint?: string }, self: Command) => {
    if (self.args.length > 0) throw usageError(KEY_AS_ARGUMENT)
    const session = openSession(cli, self)
    const format = chooseOutputFormat(self)
    await (hint === undefined ? findBySecret(session, format) : listByHint(session, format, hint))
  })
}

async function findBySecret({ client, host }: AdminSession, format: OutputFormat): Promise<void> {
  const secret = await readSecret(host.streams, 'Key (not shown): ')
  const body = { digest: digestKey(secret) }
  const response = await client.send({ method: 'POST', path: '/keys/lookup', body })
  const { key } = readResponse(client, keyResponse, response)
  if (format === 'ids') return host.write(`${key.id}\n`)
  if (format === 'json' || format === 'ndjson') return host.write(`${response.text}\n`)
  const paint = paintFor(host.streams.output, host)
  host.write(factLines(keyFacts(key, systemClock.wallMs(), paint), paint))
}

async function listByHint({ client, host }: AdminSession, format: OutputFormat, hint: string): Promise<void> {
  // The text may also be in a name or description.
  const pages = readPages(client, { path: '/keys', query: { q: hint } }, keysResponse, page =>
    page.keys.filter(key => key.hint.includes(hint)),
  )
  const whenEmpty = `You can see no key with the hint ${hint}.`
  await printList(host, format, { ...keyListView(undefined, true), whenEmpty }, pages)
}

const PATTERN_FORMATS = ['regex', 'gitleaks', 'trufflehog'] as const
type PatternFormat = (typeof PATTERN_FORMATS)[number]
/** As `keys.prefix`; no character of it has a meaning in a regular expression, TOML or YAML. */
const PREFIX = /^[A-Za-z][A-Za-z0-9_-]{0,31}$/

interface PatternOptions {
  readonly format: PatternFormat
  readonly prefix?: string
}

/** `postern keys pattern`: it needs neither a console nor settings, because scanners run elsewhere. */
function addPattern(keys: Command, { host }: Cli): void {
  keys
    .command('pattern')
    .description('print the pattern of keys, for programs that search for leaked secrets')
    .addOption(
      new Option('--format <format>', 'the pattern alone, or a configuration of gitleaks or TruffleHog')
        .choices(PATTERN_FORMATS)
        .default('regex' satisfies PatternFormat),
    )
    .option('--prefix <prefix>', 'prefix of your keys (default: POSTERN_KEYS_PREFIX, or wsk_)')
    .action(({ format, prefix = host.environment['POSTERN_KEYS_PREFIX'] ?? 'wsk_' }: PatternOptions) => {
      requirePrefix(prefix)
      host.write(`${WRITERS[format](prefix)}\n`)
    })
}

const WRITERS: Readonly<Record<PatternFormat, (prefix: string) => string>> = {
  regex: keyPattern,
  gitleaks: prefix =>
    [
      'title = "Postern"',
      '',
      '[[rules]]',
      'id = "postern-api-key"',
      'description = "API key of a Postern gateway"',
      `regex = '''${keyPattern(prefix)}'''`,
      // gitleaks compares keywords with text in lower case.
      `keywords = ["${prefix.toLowerCase()}"]`,
    ].join('\n'),
  trufflehog: prefix =>
    [
      'detectors:',
      '  - name: postern-api-key',
      '    keywords:',
      `      - "${prefix}"`,
      '    regex:',
      `      key: '${keyPattern(prefix)}'`,
    ].join('\n'),
}

function requirePrefix(text: string): void {
  if (PREFIX.test(text)) return
  throw usageError('--prefix must be a letter and up to 31 letters, digits, "_" or "-", as keys.prefix is')
}
