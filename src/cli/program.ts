import { readFileSync } from 'node:fs'
import { CommanderError } from 'commander'
import { ConfigError } from '../config/config-error.ts'
import { SettingError, StartError } from '../domain/start-error.ts'
import { EXIT, type Host } from '../run/host.ts'
import { handlesFailure, outputErrorCode } from '../run/standard-output.ts'
import { readArguments, requireKnownCommand } from './arguments.ts'
import { CliError } from './cli-error.ts'
import { createCommandTree } from './command-tree.ts'
import { COMPLETE, completions } from './complete.ts'

/** Commands that keep running after their output is closed. */
const SERVERS: ReadonlySet<string> = new Set(['demo', 'gateway', 'console'])

/** Runs the command line, and exits with a code that says how it went. */
export async function runProgram(host: Host): Promise<void> {
  const version = readVersion()
  if (host.argv[0] === COMPLETE) {
    const program = await createCommandTree({ host, version, showsAll: false }, () => true)
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
    host.exit(exitCodeOf(error, host))
  }
}

/** `postern keys list | head -1` closes the pipe early, which is not an error; a full disk is one. */
function exitWhenOutputFails(host: Host): void {
  const { output } = host.streams
  output.on('error', error => {
    if (handlesFailure(output)) return
    const code = outputErrorCode(error)
    if (code === 'EPIPE') return host.exit(EXIT.unread)
    host.complain(`Standard output cannot be written (${code}): the output is incomplete\n`)
    host.exit(EXIT.failure)
  })
}

function exitCodeOf(error: unknown, host: Host): number {
  if (error instanceof CommanderError) {
    // commander has printed its message; help and version are no failure.
    return error.exitCode === 0 ? EXIT.ok : EXIT.usage
  }
  if (error instanceof CliError) {
    // Without a message, commander has printed one, or the user pressed Ctrl-C.
    if (error.message !== '') host.complain(`${error.message}\n`)
    return error.exitCode
  }
  if (error instanceof ConfigError) {
    host.complain(error.message)
    return EXIT.config
  }
  host.complain(`${error instanceof StartError ? error.message : describe(error)}\n`)
  return error instanceof SettingError ? EXIT.config : EXIT.failure
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

function readVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  return typeof manifest === 'object' && manifest !== null && 'version' in manifest
    ? String(manifest.version)
    : '0.0.0'
}
