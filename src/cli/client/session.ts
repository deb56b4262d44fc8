import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { formats } from '../../config/formats.ts'
import { fileErrorText } from '../../config/setting-files.ts'
import { similarTo } from '../../config/similar-name.ts'
import { plainPasted } from '../../domain/pasted-text.ts'
import { EXIT, type Host } from '../../run/host.ts'
import { type Cli, CliError } from '../cli.ts'
import { AdminClient, type ConsoleAccess } from './client.ts'
import { contextsFileOf, readContexts } from './contexts.ts'

/** What the console accepts as a token. fetch would reject anything else with the token in its message. */
const TOKEN = /^[A-Za-z0-9._~+/-]+=*$/
const NO_URL =
  'The address of the console is missing: set --url or POSTERN_CONSOLE_URL, for example to http://127.0.0.1:8081, or add a context (`postern context add`)'
const NO_TOKEN =
  'The admin token is missing: set POSTERN_ADMIN_TOKEN, POSTERN_ADMIN_TOKEN_FILE, --token or --token-file'

interface SessionOptions {
  readonly url?: string
  readonly token?: string
  readonly tokenFile?: string
  readonly context?: string
  readonly json?: boolean
}

/** What a command that calls the admin API works with. */
export interface AdminSession {
  readonly host: Host
  readonly client: AdminClient
  /** `--json`: print the response of the admin API. */
  readonly json: boolean
}

/** Adds the options that say which console to ask, after a command's own. */
export function addAccessOptions(command: Command): Command {
  return command
    .option('--url <address>', 'address of the console (POSTERN_CONSOLE_URL)')
    .option('--token <token>', 'admin token; visible to other users: prefer POSTERN_ADMIN_TOKEN')
    .option('--token-file <file>', 'file that contains the token (POSTERN_ADMIN_TOKEN_FILE)')
    .option('--context <name>', 'console to ask, of `postern context list` (default: the one in use)')
}

/** For commands that are no lists. */
export function addJsonOption(command: Command): Command {
  return command.option('--json', 'print the response of the admin API')
}

export function openSession({ host }: Cli, command: Command): AdminSession {
  const options = command.opts<SessionOptions>()
  const client = new AdminClient(readConsoleAccess(options, host.environment))
  return { host, client, json: options.json === true }
}

/** A value, and the flag, variable or context that it came from. */
interface GivenText {
  readonly spelling: string
  readonly text: string
}

/** Flags, environment or a context. */
interface Source {
  readonly url: GivenText | null
  /** Reads the token's file only where it is needed. */
  readonly token: () => GivenText | null
  /** Its token is for its own console: another one must not see it. */
  readonly isContext?: true
}

/**
 * Flags take precedence over the environment, and that over the context in use. A context that is named by a flag takes
 * precedence over the environment. These commands read no other settings.
 */
function readConsoleAccess(options: SessionOptions, environment: NodeJS.ProcessEnv): ConsoleAccess {
  const flags = sourceOf(
    given('--url', options.url),
    given('--token', options.token),
    given('--token-file', options.tokenFile),
  )
  const variable = (name: string) => given(name, environment[name])
  const variables = sourceOf(
    variable('POSTERN_CONSOLE_URL'),
    variable('POSTERN_ADMIN_TOKEN'),
    variable('POSTERN_ADMIN_TOKEN_FILE'),
  )
  if (options.context !== undefined) {
    return choose([flags, sourceOfContext(options.context, environment), variables])
  }
  const needsContext = flags.url === null && variables.url === null
  return choose(
    needsContext ? [flags, variables, sourceOfContext(undefined, environment)] : [flags, variables],
  )
}

function choose(sources: readonly Source[]): ConsoleAccess {
  const place = sources.find(source => source.url !== null)
  if (place?.url == null) throw usage(NO_URL)
  const { spelling, text } = place.url
  if (formats['http-url']?.accepts(text) !== true) {
    throw usage(`${spelling} must be ${formats['http-url']?.expectation}`)
  }
  const token = firstToken(sources.filter(source => source.isContext !== true || source === place))
  if (token === null) throw usage(NO_TOKEN)
  const first = { ...token, text: firstOfList(token.text) }
  checkToken(first)
  return { url: text.replace(/(?<!\/)\/+$/, ''), token: first.text }
}

function firstToken(sources: readonly Source[]): GivenText | null {
  for (const source of sources) {
    const token = source.token()
    if (token !== null) return token
  }
  return null
}

/** The console's own setting may hold several, separated as there. */
function firstOfList(text: string): string {
  return plainPasted(text.split(/[,\n]/, 1)[0] ?? '')
}

export function checkToken({ spelling, text }: GivenText): void {
  if (TOKEN.test(text)) return
  throw usage(`${spelling} is not a token: only letters, digits and ._~+/-= are allowed`)
}

/** @param name the context that a flag names; without one, the one in use */
function sourceOfContext(name: string | undefined, environment: NodeJS.ProcessEnv): Source {
  const { current, contexts } = readContexts(contextsFileOf(environment))
  const chosen = name ?? current
  if (chosen === undefined) return { url: null, token: () => null }
  const context = Object.hasOwn(contexts, chosen) ? contexts[chosen] : undefined
  if (context === undefined) throw unknownContext(chosen, Object.keys(contexts))
  const spelling = `The context ${chosen}`
  const { url, token, tokenFile } = context
  const source = sourceOf(given(spelling, url), given(spelling, token), given(spelling, tokenFile))
  return { ...source, isContext: true }
}

export function unknownContext(name: string, names: readonly string[]): CliError {
  return usage(`There is no context ${name}${similarTo(name, names)}: \`postern context list\` shows them`)
}

/** An empty text counts as not set. */
function given(spelling: string, text: string | undefined): GivenText | null {
  return text === undefined || text === '' ? null : { spelling, text }
}

function sourceOf(url: GivenText | null, own: GivenText | null, file: GivenText | null): Source {
  return {
    url,
    token: () => {
      if (own !== null && file !== null)
        throw usage(`The admin token is set twice: by ${own.spelling} and ${file.spelling}`)
      return file === null ? own : { spelling: file.spelling, text: readToken(file) }
    },
  }
}

function readToken({ spelling, text }: GivenText): string {
  try {
    return readFileSync(text, 'utf8').trim()
  } catch (error) {
    throw usage(`${spelling} names a file that cannot be read: ${fileErrorText(error)}`)
  }
}

function usage(message: string): CliError {
  return new CliError(message, EXIT.usage)
}
