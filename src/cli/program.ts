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
import { addAuditVerify } from './audit-verify-command.ts'
import { CliError } from './cli-error.ts'
import { addKeysCommand } from './keys-command.ts'

const PLANES: readonly Plane[] = ['gateway', 'console']
/** Commands that keep running after their output is closed. */
const SERVERS: ReadonlySet<string> = new Set(['demo', 'gateway', 'console'])
/** Words that stand for a flag, anywhere before the first option. */
const WORDS_FOR_FLAGS: ReadonlyMap<string, string> = new Map([
  ['help', '--help'],
  ['version', '--version'],
])
/** Flags of commands that are no settings. */
const OWN_FLAGS: ReadonlySet<string> = new Set(['--config', '--head'])
const HELP_FLAGS: ReadonlySet<string> = new Set(['-h', '--help'])

/** Runs the command line, and exits with a code that says how it went. */
export async function runProgram(host: Host): Promise<void> {
  const version = readVersion()
  const program = describeProgram(host, version)
  if (!SERVERS.has(host.argv[0] ?? '')) exitWhenOutputCloses(host)
  try {
    await program.parseAsync(argumentsOf(program, host.argv), { from: 'user' })
  } catch (error) {
    host.exit(exitCodeOf(error, host))
  }
}

/** `postern keys list | head -1` closes the pipe early, which is not an error. */
function exitWhenOutputCloses(host: Host): void {
  host.streams.output.on('error', () => host.exit(EXIT.unread))
}

/** Turns `postern help keys list`, `postern keys help` and `postern version` into flags. Unknown commands are refused. */
function argumentsOf(program: Command, argv: readonly string[]): string[] {
  const firstOption = argv.findIndex(word => word.startsWith('-'))
  const words = firstOption === -1 ? argv : argv.slice(0, firstOption)
  const at = words.findIndex(word => WORDS_FOR_FLAGS.has(word))
  const flag = WORDS_FOR_FLAGS.get(words[at] ?? '')
  const given = flag === undefined ? [...argv] : [...argv.toSpliced(at, 1), flag]
  // For an unknown command commander would print the help of its parent.
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
    .description('API key gateway in front of your service')
    .helpCommand(false)
    .configureOutput({
      writeOut: text => host.write(text),
      writeErr: text => host.complain(text),
      // The value in `--tokn=…` may be secret.
      outputError: (text, write) => write(text.replace(/^(error: unknown option '[^'=]*)=[\s\S]*'/, "$1'")),
    })
    .exitOverride()

  command(program, 'demo', 'run gateway, console and a sample upstream in one process, in memory').action(
    async (_, self) => {
      const { runDemo } = await import('../run/run-demo.ts')
      await runDemo(host, version, flagsOf(self), configFileOf(self))
    },
  )
  command(program, 'gateway', 'run the data plane, which verifies keys and forwards requests').action(
    async (_, self) => {
      const settings = loadRunSettings(() => load(host, self, ['gateway']))
      const { runGateway } = await import('../run/run-gateway.ts')
      await runGateway(host, version, settings)
    },
  )
  command(program, 'console', 'run the control plane, which issues, lists and revokes keys').action(
    async (_, self) => {
      const settings = loadRunSettings(() => load(host, self, ['console']))
      const { runConsole } = await import('../run/run-console.ts')
      await runConsole(host, version, settings)
    },
  )
  addKeysCommand(program, host)
  const audit = program.command('audit').description('check the audit log')
  addAuditVerify(
    command(audit, 'verify', 'check the audit chain in the configured database, read-only; exit 0 or 1'),
    host,
    self => loadOrThrow(host, self, []),
  )
  const configuration = program.command('config').description('inspect the settings')
  command(configuration, 'check', 'report every problem in the settings at once')
    .argument('[plane]', 'check only what this plane needs: gateway or console')
    .action(async (plane: string | undefined, _, self) => {
      loadOrThrow(host, self, planesOf(plane, self))
      host.write('The settings are valid.\n')
    })
  command(configuration, 'print', 'print the effective settings, with secrets hidden').action(
    async (_, self) => {
      const loaded = load(host, self, [])
      host.write(printConfig(configOrThrow(loaded), loaded.ok ? loaded.removed : undefined))
    },
  )
  command(program, 'openapi', 'print the public API as an OpenAPI 3.1 document').action(async (_, self) => {
    host.write(`${JSON.stringify(describeApi(loadOrThrow(host, self, []), version), null, 2)}\n`)
  })
  addHelpAndVersion(program, version)
  return program
}

/** Adds help and version to every command. */
function addHelpAndVersion(described: Command, version: string): void {
  described.helpOption('-h, --help', 'print this help').version(version, '-V, --version', 'print the version')
  for (const child of described.commands) addHelpAndVersion(child, version)
}

/** A command that takes every setting as a flag. The flags are added only to the command that runs: there are many. */
function command(parent: Command, name: string, description: string): Command {
  const made = parent.command(name).description(description)
  parent.hook('preSubcommand', (_, asked) => {
    if (asked === made) addSettings(made)
  })
  return made
}

function addSettings(made: Command): void {
  made.option('--config <file>', 'configuration file')
  for (const setting of settings) {
    for (const { name: flag } of spellingsOf(setting, 'flag')) {
      const help =
        flag.endsWith('-file') && !setting.flag.endsWith('-file')
          ? 'File that contains it'
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
  return new Map(given.filter(([flag]) => !OWN_FLAGS.has(flag)))
}

function configFileOf(self: Command): string | undefined {
  const file: unknown = self.getOptionValue('config')
  return typeof file === 'string' ? file : undefined
}

/** @throws ConfigError, which names every problem */
function loadOrThrow(host: Host, self: Command, planes: readonly Plane[]): Config {
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
  return known === undefined
    ? self.error(`error: unknown plane ${plane}: it must be gateway or console`)
    : [known]
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
