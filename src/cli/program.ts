import { readFileSync } from 'node:fs'
import { Command, CommanderError, Option } from 'commander'
import { ConfigError, configOrThrow } from '../config/config-error.ts'
import { type LoadedConfig, loadConfig } from '../config/load.ts'
import { printConfig } from '../config/print.ts'
import type { Plane } from '../config/rules.ts'
import type { Config } from '../config/schema.ts'
import { settings } from '../config/settings.ts'
import { spellings } from '../config/sources.ts'
import { describeApi } from '../domain/describe-api.ts'
import { EXIT, type Host } from '../run/host.ts'
import { StartError } from '../run/listen.ts'
import { settingsToRun } from '../run/run-settings.ts'
import { CliError } from './cli-error.ts'
import { addKeysCommand } from './keys-command.ts'

const PLANES: readonly Plane[] = ['gateway', 'console']
/** Commands that go on for whom they serve, whether or not anybody reads what they say. */
const SERVING: ReadonlySet<string> = new Set(['demo', 'gateway', 'console'])
const UNKNOWN_SETTING = 'commander.unknownOption'

/** Reads the command line, does what it says, and ends with the exit code that fits. */
export async function runProgram(host: Host): Promise<void> {
  const version = readVersion()
  const program = describeProgram(host, version)
  if (!SERVING.has(host.argv[0] ?? '')) endQuietlyWhereNobodyReads(host)
  try {
    await program.parseAsync([...host.argv], { from: 'user' })
  } catch (error) {
    host.exit(exitCodeOf(error, host))
  }
}

/** `postern keys list | head -1` is no fault. */
function endQuietlyWhereNobodyReads(host: Host): void {
  host.streams.output.on('error', () => host.exit(EXIT.unread))
}

function describeProgram(host: Host, version: string): Command {
  const program = new Command('postern')
    .description('API-key gateway in front of a workspace/files service')
    .version(version, '--version', 'print the version')
    .helpOption('--help', 'print this help')
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
    const settings = settingsToRun(() => load(host, self, ['gateway']))
    const { runGateway } = await import('../run/run-gateway.ts')
    await runGateway(host, version, settings)
  })
  command(program, 'console', 'the control plane: issues, lists and revokes keys').action(async (_, self) => {
    const settings = settingsToRun(() => load(host, self, ['console']))
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
    host.write(printConfig(loadOrEnd(host, self, [])))
  })
  command(program, 'openapi', 'print the public API as an OpenAPI 3.1 document').action(async (_, self) => {
    host.write(`${JSON.stringify(describeApi(loadOrEnd(host, self, []), version), null, 2)}\n`)
  })
  return program
}

/** A command that takes every setting as a flag; they are described where it is the one that is asked for. */
function command(parent: Command, name: string, description: string): Command {
  const made = parent.command(name).description(description).helpOption('--help', 'print this help')
  parent.hook('preSubcommand', (_, asked) => {
    if (asked === made) addSettings(made)
  })
  return made
}

function addSettings(made: Command): void {
  made.option('--config <file>', 'file of settings')
  for (const setting of settings) {
    for (const [flag] of spellings(setting, 'flag')) {
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
    if (error.exitCode === 0) return EXIT.ok
    return error.code === UNKNOWN_SETTING ? EXIT.config : EXIT.usage
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
