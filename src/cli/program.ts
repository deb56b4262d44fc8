import { readFileSync } from 'node:fs'
import { Command, CommanderError, Option } from 'commander'
import { ConfigError } from '../config/config-error.ts'
import { configOrThrow, type LoadedConfig, loadConfig } from '../config/load-config.ts'
import { printConfig } from '../config/print-config.ts'
import type { Plane } from '../config/rules.ts'
import type { Config } from '../config/schema.ts'
import { settings, spellingsOf } from '../config/settings.ts'
import { describeApi } from '../domain/describe-api.ts'
import { EXIT, type Host } from '../run/host.ts'
import { StartError } from '../run/listen.ts'
import { loadRunSettings } from '../run/run-settings.ts'
import { CliError } from './cli-error.ts'
import { addKeysCommand } from './keys-command.ts'

const PLANES: readonly Plane[] = ['gateway', 'console']
/** Commands that go on for whom they serve, whether or not anybody reads what they say. */
const SERVING: ReadonlySet<string> = new Set(['demo', 'gateway', 'console'])
/** Words that may stand in place of the flag, anywhere before the first option. */
const WORDS_FOR_FLAGS: ReadonlyMap<string, string> = new Map([
  ['help', '--help'],
  ['version', '--version'],
])
const HELP_FLAGS: ReadonlySet<string> = new Set(['-h', '--help'])

/** Reads the command line, does what it says, and ends with the exit code that fits. */
export async function runProgram(host: Host): Promise<void> {
  const version = readVersion()
  const program = describeProgram(host, version)
  if (!SERVING.has(host.argv[0] ?? '')) endQuietlyWhereNobodyReads(host)
  try {
    await program.parseAsync(argumentsOf(program, host.argv), { from: 'user' })
  } catch (error) {
    host.exit(exitCodeOf(error, host))
  }
}

/** `postern keys list | head -1` is no fault. */
function endQuietlyWhereNobodyReads(host: Host): void {
  host.streams.output.on('error', () => host.exit(EXIT.unread))
}

/** `postern help keys list`, `postern keys help` and `postern version` as flags; what is asked about must be a command. */
function argumentsOf(program: Command, argv: readonly string[]): string[] {
  const firstOption = argv.findIndex(word => word.startsWith('-'))
  const words = firstOption === -1 ? argv : argv.slice(0, firstOption)
  const at = words.findIndex(word => WORDS_FOR_FLAGS.has(word))
  const flag = WORDS_FOR_FLAGS.get(words[at] ?? '')
  const given = flag === undefined ? [...argv] : [...argv.toSpliced(at, 1), flag]
  // commander would show its own help where that of an unknown command is asked for.
  if (given.some(word => HELP_FLAGS.has(word)))
    requireCommand(
      program,
      words.filter((_, index) => index !== at),
    )
  return given
}

function requireCommand(parent: Command, [word, ...more]: readonly string[]): void {
  if (word === undefined || parent.commands.length === 0) return
  const found = parent.commands.find(child => child.name() === word)
  if (found === undefined) parent.error(`error: unknown command '${word}'`)
  else requireCommand(found, more)
}

function describeProgram(host: Host, version: string): Command {
  const program = new Command('postern')
    .description('API-key gateway in front of a workspace/files service')
    .helpCommand(false)
    .configureOutput({
      writeOut: text => host.write(text),
      writeErr: text => host.complain(text),
      // `--tokn=…` is repeated without what follows the name: it may be secret.
      outputError: (text, write) => write(text.replace(/^(error: unknown option '[^'=]*)=[\s\S]*'/, "$1'")),
    })
    .exitOverride()

  command(program, 'demo', 'gateway, console and a sample service in one process, in memory').action(
    async (_, self) => {
      const { runDemo } = await import('../run/run-demo.ts')
      await runDemo(host, version, flagsOf(self), configFileOf(self))
    },
  )
  command(program, 'gateway', 'the data plane: checks keys and forwards').action(async (_, self) => {
    const settings = loadRunSettings(() => load(host, self, ['gateway']))
    const { runGateway } = await import('../run/run-gateway.ts')
    await runGateway(host, version, settings)
  })
  command(program, 'console', 'the control plane: issues, lists and revokes keys').action(async (_, self) => {
    const settings = loadRunSettings(() => load(host, self, ['console']))
    const { runConsole } = await import('../run/run-console.ts')
    await runConsole(host, version, settings)
  })
  addKeysCommand(program, host)
  const configuration = program.command('config').description('look at settings')
  command(configuration, 'check', 'name every mistake in the settings at once')
    .argument('[plane]', 'only what this plane needs: gateway or console')
    .action(async (plane: string | undefined, _, self) => {
      loadOrEnd(host, self, planesOf(plane, self))
      host.write('The settings are valid.\n')
    })
  command(configuration, 'print', 'print the effective settings, secrets hidden').action(async (_, self) => {
    const loaded = load(host, self, [])
    host.write(printConfig(configOrThrow(loaded), loaded.ok ? loaded.removed : undefined))
  })
  command(program, 'openapi', 'print the public API as an OpenAPI 3.1 document').action(async (_, self) => {
    host.write(`${JSON.stringify(describeApi(loadOrEnd(host, self, []), version), null, 2)}\n`)
  })
  describeItself(program, version)
  return program
}

/** Help and version, of every command. */
function describeItself(described: Command, version: string): void {
  described.helpOption('-h, --help', 'print this help').version(version, '-V, --version', 'print the version')
  for (const child of described.commands) describeItself(child, version)
}

/** A command that takes every setting as a flag; they are described where it is the one that is asked for. */
function command(parent: Command, name: string, description: string): Command {
  const made = parent.command(name).description(description)
  parent.hook('preSubcommand', (_, asked) => {
    if (asked === made) addSettings(made)
  })
  return made
}

function addSettings(made: Command): void {
  made.option('--config <file>', 'file of settings')
  for (const setting of settings) {
    for (const { name: flag } of spellingsOf(setting, 'flag')) {
      const help =
        flag.endsWith('-file') && !setting.flag.endsWith('-file')
          ? 'File that holds it'
          : setting.schema.description
      made.addOption(new Option(`${flag} <value>`, help))
    }
  }
}

function flagsOf(self: Command): Map<string, string> {
  const given = self.options.flatMap(option => {
    const value: unknown = self.getOptionValue(option.attributeName())
    return typeof value === 'string' && option.long != null ? [[option.long, value] as const] : []
  })
  return new Map(given.filter(([flag]) => flag !== '--config'))
}

function configFileOf(self: Command): string | undefined {
  const file: unknown = self.getOptionValue('config')
  return typeof file === 'string' ? file : undefined
}

/** Settings that are about to be used; where they are wrong, all mistakes and the end. */
function loadOrEnd(host: Host, self: Command, planes: readonly Plane[]): Config {
  return configOrThrow(load(host, self, planes))
}

function load(host: Host, self: Command, planes: readonly Plane[]): LoadedConfig {
  return loadConfig({
    environment: host.environment,
    flags: flagsOf(self),
    configFile: configFileOf(self),
    planes,
  })
}

function planesOf(plane: string | undefined, self: Command): readonly Plane[] {
  if (plane === undefined) return PLANES
  const known = PLANES.find(name => name === plane)
  return known === undefined ? self.error(`error: there is no plane ${plane}: gateway or console`) : [known]
}

function exitCodeOf(error: unknown, host: Host): number {
  if (error instanceof CommanderError) {
    // commander has printed its message; help and version are no failure.
    return error.exitCode === 0 ? EXIT.ok : EXIT.usage
  }
  if (error instanceof CliError) {
    // Where it is silent, commander or the person at the terminal has said it already.
    if (error.message !== '') host.complain(`${error.message}\n`)
    return error.exitCode
  }
  if (error instanceof ConfigError) {
    host.complain(error.message)
    return EXIT.config
  }
  host.complain(`${error instanceof StartError ? error.message : describe(error)}\n`)
  return EXIT.failure
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
