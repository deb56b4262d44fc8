import { type Command, CommanderError } from 'commander'
import manifest from '../../../package.json' with { type: 'json' }
import { ConfigError } from '../../config/config-error.ts'
import { SettingError, StartError } from '../../domain/start-error.ts'
import { EXIT, type Host } from '../../run/host.ts'
import { handlesFailure, outputErrorCode } from '../../run/standard-output.ts'
import { CliError, COMPLETE, errorJson, printsJson } from '../cli.ts'
import { createCommandTree } from './command-tree.ts'

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
    host.writeError(`Standard output cannot be written (${code}): the output is incomplete\n`)
    host.exit(EXIT.failure)
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
