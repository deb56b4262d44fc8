import {
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import { parse, stringify } from 'yaml'
import { formats } from '../../config/formats.ts'
import { fileErrorText } from '../../config/setting-files.ts'
import { similarTo } from '../../config/similar-name.ts'
import { systemClock } from '../../domain/clock.ts'
import { plainPasted } from '../../domain/form/text.ts'
import { hasKeyForm } from '../../domain/key/secret.ts'
import { EXIT, type Host } from '../../run/host.ts'
import { type Cli, CliError, usageError } from '../cli.ts'
import { AdminClient, type ConsoleAccess } from './client.ts'

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
  const access = readConsoleAccess(options, host.environment)
  const client = new AdminClient(access, listener => host.onSignal('SIGINT', listener))
  return { host, client, json: options.json === true }
}

/** A value, and the flag, variable or context that it came from. */
interface GivenText {
  readonly source: string
  readonly text: string
}

/** Flags, environment or a context. */
interface GivenAccess {
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
  const flags = givenAccess(
    givenText('--url', options.url),
    givenText('--token', options.token),
    givenText('--token-file', options.tokenFile),
  )
  const variable = (name: string) => givenText(name, environment[name])
  const variables = givenAccess(
    variable('POSTERN_CONSOLE_URL'),
    variable('POSTERN_ADMIN_TOKEN'),
    variable('POSTERN_ADMIN_TOKEN_FILE'),
  )
  if (options.context !== undefined) {
    return choose([flags, readContextAccess(options.context, environment), variables])
  }
  const needsContext = flags.url === null && variables.url === null
  return choose(
    needsContext ? [flags, variables, readContextAccess(undefined, environment)] : [flags, variables],
  )
}

function choose(given: readonly GivenAccess[]): ConsoleAccess {
  const chosen = given.find(({ url }) => url !== null)
  if (chosen?.url == null) throw usageError(NO_URL)
  const url = checkUrl(chosen.url.source, chosen.url.text)
  const token = firstToken(given.filter(access => access.isContext !== true || access === chosen))
  if (token === null) throw usageError(NO_TOKEN)
  const first = { ...token, text: takeFirst(token.text) }
  checkToken(first)
  return { url, token: first.text }
}

/** @returns the address without a trailing slash */
export function checkUrl(source: string, url: string): string {
  if (formats['http-url']?.accepts(url) === true) return url.replace(/(?<!\/)\/+$/, '')
  throw usageError(`${source} must be ${formats['http-url']?.expectation}`)
}

function firstToken(given: readonly GivenAccess[]): GivenText | null {
  for (const access of given) {
    const token = access.token()
    if (token !== null) return token
  }
  return null
}

/** The console's own setting may hold several, separated as there. */
function takeFirst(text: string): string {
  return plainPasted(text.split(/[,\n]/, 1)[0] ?? '')
}

export function checkToken({ source, text }: GivenText): void {
  if (TOKEN.test(text)) return
  throw usageError(`${source} is not a token: only letters, digits and ._~+/-= are allowed`)
}

/** Any text that can be sent: this machine does not know the format of the installation's keys. @returns the key */
export function checkKey(source: string, key: string): string {
  if (hasKeyForm(key, { kind: 'opaque' })) return key
  throw usageError(`The key ${source} is not one: only letters, digits and ._~+/-= are allowed`)
}

function readContextAccess(name: string | undefined, environment: NodeJS.ProcessEnv): GivenAccess {
  const context = chooseContext(name, environment)
  if (context === null) return { url: null, token: () => null }
  const source = `The context ${context.name}`
  const { url, token, tokenFile } = context
  if (url === undefined) throw usageError(`${source} has no console: remove it, and add it again with --url`)
  const access = givenAccess(givenText(source, url), givenText(source, token), givenText(source, tokenFile))
  return { ...access, isContext: true }
}

/**
 * @param name the context that a flag names; without one, the one in use
 * @returns null if none is in use
 * @throws CliError if there is none of this name
 */
export function chooseContext(
  name: string | undefined,
  environment: NodeJS.ProcessEnv,
): (Context & { readonly name: string }) | null {
  const { current, contexts } = readContexts(findContextsFile(environment))
  const chosen = name ?? current
  if (chosen === undefined) return null
  const context = Object.hasOwn(contexts, chosen) ? contexts[chosen] : undefined
  if (context === undefined) throw unknownContext(chosen, Object.keys(contexts))
  return { name: chosen, ...context }
}

export function unknownContext(name: string, names: readonly string[]): CliError {
  return usageError(
    `There is no context ${name}${similarTo(name, names)}: \`postern context list\` shows them`,
  )
}

/** An empty text counts as not set. */
function givenText(source: string, text: string | undefined): GivenText | null {
  return text === undefined || text === '' ? null : { source, text }
}

function givenAccess(url: GivenText | null, own: GivenText | null, file: GivenText | null): GivenAccess {
  return {
    url,
    token: () => {
      if (own !== null && file !== null)
        throw usageError(`The admin token is set twice: by ${own.source} and ${file.source}`)
      return file === null ? own : { source: file.source, text: readToken(file) }
    },
  }
}

function readToken({ source, text }: GivenText): string {
  try {
    return readFileSync(text, 'utf8').trim()
  } catch (error) {
    throw usageError(`${source} names a file that cannot be read: ${fileErrorText(error)}`)
  }
}

const CONTEXT_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
const nonEmpty = Type.String({ minLength: 1 })
const contextSchema = Type.Object({
  /** Of the console, with one of the two below. */
  url: Type.Optional(nonEmpty),
  token: Type.Optional(nonEmpty),
  tokenFile: Type.Optional(nonEmpty),
  /** Of the API, with one of the two below. */
  apiUrl: Type.Optional(nonEmpty),
  key: Type.Optional(nonEmpty),
  keyFile: Type.Optional(nonEmpty),
})
export type Context = Static<typeof contextSchema>
const contextsSchema = Type.Object({
  /** The one in use. */
  current: Type.Optional(nonEmpty),
  contexts: Type.Record(Type.String({ pattern: CONTEXT_NAME.source }), contextSchema),
})
/** Consoles and APIs that a person works with, by name. */
export type Contexts = Static<typeof contextsSchema>

const OTHERS = 0o077

export function isContextName(name: string): boolean {
  return CONTEXT_NAME.test(name)
}

/** @returns null without a home directory */
export function findContextsFile(environment: NodeJS.ProcessEnv): string | null {
  const { HOME: home, XDG_CONFIG_HOME: own } = environment
  // The specification of base directories ignores relative ones.
  if (own?.startsWith('/')) return join(own, 'postern', 'config.yaml')
  return home === undefined || home === '' ? null : join(home, '.config', 'postern', 'config.yaml')
}

/** @throws CliError if the file cannot be used, or others may read the tokens in it */
export function readContexts(path: string | null): Contexts {
  const content = path === null ? null : readPrivately(path)
  if (path === null || content === null) return { contexts: {} }
  const parsed = parseOrNull(content)
  if (Value.Check(contextsSchema, parsed)) return parsed
  throw wrong(`${path} is not a list of contexts: correct it, or delete it and add the contexts again`)
}

const LOCK_WAIT_MS = 2_000
const LOCK_POLL_MS = 10

/**
 * Replaces the file in one step: a reader sees the old one or the new one. The unfinished file is the lock, so that of two
 * changes at once the later one begins with what the earlier one wrote.
 */
export async function changeContexts(
  path: string | null,
  change: (contexts: Contexts) => Contexts,
): Promise<void> {
  if (path === null) throw wrong('There is no home directory: set HOME or XDG_CONFIG_HOME')
  const unfinished = `${path}.new`
  const handle = await openLocked(path, unfinished)
  try {
    writeFileSync(handle, stringify(change(readContexts(path))))
    renameSync(unfinished, path)
  } catch (error) {
    // A part of a token.
    rmSync(unfinished, { force: true })
    throw error instanceof CliError ? error : cannotWrite(path, error)
  } finally {
    closeSync(handle)
  }
}

async function openLocked(path: string, unfinished: string): Promise<number> {
  const endMs = systemClock.monotonicMs() + LOCK_WAIT_MS
  try {
    makeDirectory(dirname(path))
  } catch (error) {
    // A file in its place fails with the code of a held lock.
    throw cannotWrite(path, error)
  }
  for (;;) {
    try {
      return openSync(unfinished, 'wx', 0o600)
    } catch (error) {
      const isLocked = error instanceof Error && 'code' in error && error.code === 'EEXIST'
      if (!isLocked) throw cannotWrite(path, error)
      if (systemClock.monotonicMs() > endMs) throw wrong(lockedText(unfinished))
      await sleep(LOCK_POLL_MS)
    }
  }
}

/** With those above it. Node's own `recursive` repeats for ever what fails with ENOENT below a directory, as in /proc. */
function makeDirectory(path: string): void {
  if (isDirectory(path)) return
  const parent = dirname(path)
  if (parent !== path) makeDirectory(parent)
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // Another command may have made it meanwhile.
    if (!isDirectory(path)) throw error
  }
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
}

function lockedText(unfinished: string): string {
  return `Another command is changing the contexts: repeat this one. If none is, delete ${unfinished}, which one that was killed has left`
}

function cannotWrite(path: string, error: unknown): CliError {
  return wrong(
    `${path} cannot be written: ${fileErrorText(error)}. Set HOME or XDG_CONFIG_HOME to a directory in which you may write`,
  )
}

function readPrivately(path: string): string | null {
  try {
    const { mode } = statSync(path)
    if ((mode & OTHERS) !== 0) {
      throw wrong(`Other users may read ${path}, which holds tokens: run chmod 600 ${path}`)
    }
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof CliError) throw error
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw wrong(`${path} cannot be read: ${fileErrorText(error)}`)
  }
}

/** The parser's message could repeat a token. */
function parseOrNull(content: string): unknown {
  try {
    return parse(content, { logLevel: 'error' })
  } catch {
    return null
  }
}

function wrong(message: string): CliError {
  return new CliError(message, EXIT.config)
}
