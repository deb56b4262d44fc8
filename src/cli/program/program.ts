import { Command, CommanderError } from 'commander'
import manifest from '../../../package.json' with { type: 'json' }
import { ConfigError } from '../../config/config-error.ts'
import { similarTo } from '../../config/similar-name.ts'
import { SettingError, StartError } from '../../domain/errors.ts'
import { EXIT, type Host, handlesFailure, outputErrorCode } from '../../run/host.ts'
import { type Cli, CliError, COMPLETE, type Define, errorJson, printsJson } from '../cli.ts'

/** Words that stand for a flag, anywhere before the first option. */
const WORDS_FOR_FLAGS: ReadonlyMap<string, string> = new Map([
  ['help', '--help'],
  ['version', '--version'],
])
const HELP_ALL = '--help-all'
const HELP_FLAGS: ReadonlySet<string> = new Set(['-h', '--help'])

/** Commands that keep running after their output is closed. */
const SERVERS: ReadonlySet<string> = new Set(['demo', 'gateway', 'console'])

/** Runs the command line, and exits with the code of the outcome. */
export async function runProgram(host: Host): Promise<void> {
  const { version } = manifest
  if (host.argv[0] === COMPLETE) {
    const program = await createCommandTree({ host, version, showsAll: false }, () => true)
    const { completions } = await import('../commands/completion.ts')
    host.write(completions(program, host.argv.slice(1)))
    return
  }
  const given = readArguments(host.argv)
  const [name] = given.words
  if (!SERVERS.has(name ?? '')) exitWhenOutputFails(host)
  const cli = { host, version, showsAll: given.showsAll }
  const program = await createCommandTree(cli, command => command === name)
  try {
    requireKnownCommand(program, given)
    await program.parseAsync([...given.argv], { from: 'user' })
  } catch (error) {
    host.exit(reportFailure(error, host))
  }
}

/** The command line with its special words replaced. */
interface Arguments {
  readonly argv: readonly string[]
  /** The words before the first option: commands, then arguments. */
  readonly words: readonly string[]
  readonly showsAll: boolean
}

/** Turns `postern help keys list`, `postern keys help`, `postern version` and `--help-all` into flags. */
function readArguments(argv: readonly string[]): Arguments {
  const showsAll = argv.includes(HELP_ALL)
  const given = argv.map(word => (word === HELP_ALL ? '--help' : word))
  const firstOption = given.findIndex(word => word.startsWith('-'))
  const words = firstOption === -1 ? given : given.slice(0, firstOption)
  const at = words.findIndex(word => WORDS_FOR_FLAGS.has(word))
  const flag = WORDS_FOR_FLAGS.get(words[at] ?? '')
  if (flag === undefined) return { argv: given, words, showsAll }
  return { argv: [...given.toSpliced(at, 1), flag], words: words.toSpliced(at, 1), showsAll }
}

/** Rejects the help of an unknown command: commander would print the help of its parent. */
function requireKnownCommand(program: Command, { argv, words }: Arguments): void {
  if (argv.some(word => HELP_FLAGS.has(word))) requireCommand(program, words)
}

function requireCommand(parent: Command, [word, ...more]: readonly string[]): void {
  if (word === undefined || parent.commands.length === 0) return
  const found = parent.commands.find(child => child.name() === word)
  if (found === undefined) parent.error(`error: unknown command '${word}'`)
  else requireCommand(found, more)
}

/** `postern keys list | head -1` closes the pipe early, which is not an error; a full disk is one. */
function exitWhenOutputFails(host: Host): void {
  const { output } = host.streams
  output.on('error', error => {
    if (handlesFailure(output)) return
    const code = outputErrorCode(error)
    if (code === 'EPIPE') return host.exit(EXIT.unread)
    const message = `Standard output cannot be written (${code}): the output is incomplete`
    host.exit(reportFailure(new CliError(message, EXIT.failure), host))
  })
}

interface Failure {
  readonly exitCode: number
  /** Empty if it is printed already, or there is nothing to say. */
  readonly message: string
  /** Of the admin API. */
  readonly code: string | null
  readonly details?: object
}

/** Prints the error. @returns the exit code */
function reportFailure(error: unknown, host: Host): number {
  const { exitCode, message, code, details } = explainFailure(error)
  if (message === '') return exitCode
  const [name] = Object.entries(EXIT).find(([, value]) => value === exitCode) ?? ['failure']
  host.writeError(printsJson(host.argv) ? errorJson(message, code ?? name, details) : `${message}\n`)
  return exitCode
}

function explainFailure(error: unknown): Failure {
  if (error instanceof CommanderError) {
    // commander has printed its message; help and version are no failure.
    return { exitCode: error.exitCode === 0 ? EXIT.ok : EXIT.usage, message: '', code: null }
  }
  // Without a message, commander has printed one, or the user pressed Ctrl-C.
  if (error instanceof CliError) return error
  if (error instanceof ConfigError) {
    return { exitCode: EXIT.config, message: error.message.trimEnd(), code: null }
  }
  const message = error instanceof StartError ? error.message : describe(error)
  return { exitCode: error instanceof SettingError ? EXIT.config : EXIT.failure, message, code: null }
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

interface TopCommand {
  readonly name: string
  readonly description: string
  /** The rest is loaded only for the command that runs: a gateway needs no table, and no client of the admin API. */
  readonly load: () => Promise<Define>
}

const COMMANDS: readonly TopCommand[] = [
  {
    name: 'demo',
    description: 'run gateway, console and a sample upstream in one process, in memory',
    load: async () => (await import('../commands/servers.ts')).defineDemo,
  },
  {
    name: 'gateway',
    description: 'run the data plane, which verifies keys and forwards requests',
    load: async () => (await import('../commands/servers.ts')).defineGateway,
  },
  {
    name: 'console',
    description: 'run the control plane, which issues, lists and revokes keys',
    load: async () => (await import('../commands/servers.ts')).defineConsole,
  },
  {
    name: 'keys',
    description: 'issue, list, edit, rotate, suspend and revoke keys, through the console',
    load: async () => (await import('../commands/keys/keys.ts')).define,
  },
  {
    name: 'workspaces',
    description: 'list workspaces, through the console',
    load: async () => (await import('../commands/workspaces.ts')).define,
  },
  {
    name: 'refusals',
    description: 'list rejected requests and their reasons',
    load: async () => (await import('../commands/refusals.ts')).define,
  },
  {
    name: 'limits',
    description: 'list rate limits that are nearly used up',
    load: async () => (await import('../commands/limits.ts')).define,
  },
  {
    name: 'tokens',
    description: 'issue, list and revoke admin tokens of programs',
    load: async () => (await import('../commands/tokens.ts')).defineTokens,
  },
  {
    name: 'webhooks',
    description: 'show, set, test and remove webhooks of workspaces',
    load: async () => (await import('../commands/webhooks.ts')).define,
  },
  {
    name: 'whoami',
    description: 'show who the admin token is, and what it may do',
    load: async () => (await import('../commands/tokens.ts')).defineWhoami,
  },
  {
    name: 'audit',
    description: 'list, follow and check the audit log',
    load: async () => (await import('../commands/audit.ts')).define,
  },
  {
    name: 'database',
    description: 'back up, restore and copy the database of the console',
    load: async () => (await import('../commands/database.ts')).define,
  },
  {
    name: 'proxy',
    description: 'forward to the API from this machine, with a key',
    load: async () => (await import('../commands/proxy.ts')).define,
  },
  {
    name: 'context',
    description: 'remember addresses of consoles and APIs, with token and key',
    load: async () => (await import('../commands/context.ts')).define,
  },
  {
    name: 'config',
    description: 'inspect the settings',
    load: async () => (await import('../commands/config.ts')).define,
  },
  {
    name: 'doctor',
    description: 'ask Redis, key service or database, upstream and clock what a process needs of them',
    load: async () => (await import('../commands/doctor.ts')).define,
  },
  {
    name: 'openapi',
    description: 'print the public API, or the admin API, as an OpenAPI 3.1 document',
    load: async () => (await import('../commands/config.ts')).defineOpenApi,
  },
  {
    name: 'completion',
    description: 'print a script that completes commands and options in a shell',
    load: async () => (await import('../commands/completion.ts')).define,
  },
]

/**
 * The commands.
 * @param loads whether a top-level command is loaded in full; the others have only their names
 */
export async function createCommandTree(cli: Cli, loads: (name: string) => boolean): Promise<Command> {
  const program = new Command('postern')
    .description('API key gateway in front of your service')
    .helpCommand(false)
    .configureOutput({
      writeOut: text => cli.host.write(text),
      writeErr: text => cli.host.writeError(text),
      // The value in `--tokn=…`, and an argument too many, may be secret.
      outputError: (text, write) => {
        const safe = nameMistypedOption(text, cli.host.argv)
          .replace(/^(error: unknown option '[^'=]*)=[\s\S]*'/, "$1'")
          .replace(/^(error: too many arguments [^:]*):[\s\S]*/, '$1.\n')
        write(printsJson(cli.host.argv) ? errorJson(safe.replace(/^error: /, '').trimEnd(), 'usage') : safe)
      },
    })
    .exitOverride()
  for (const { name, description, load } of COMMANDS) {
    const command = program.command(name).description(description)
    if (loads(name)) {
      const define = await load()
      define(command, cli)
    }
  }
  addHelpAndVersion(program, cli.version)
  return program
}

/** Commander looks for required options first: one that is mistyped, such as `--scopes`, would only seem to be missing. */
function nameMistypedOption(text: string, argv: readonly string[]): string {
  const required = /^error: required option '(--[a-z-]+)/.exec(text)?.[1]
  if (required === undefined) return text
  const given = argv.filter(word => word.startsWith('--')).map(word => word.split('=', 1)[0] ?? word)
  const mistyped = given.find(word => similarTo(word, [required]) !== '')
  return mistyped === undefined ? text : `error: unknown option '${mistyped}'\n(Did you mean ${required}?)\n`
}

/** Adds help and version to every command. */
function addHelpAndVersion(described: Command, version: string): void {
  described
    .helpCommand(false)
    .helpOption('-h, --help', 'print this help')
    .version(version, '-V, --version', 'print the version')
  for (const child of described.commands) addHelpAndVersion(child, version)
}
