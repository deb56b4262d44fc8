import { Argument, type Command, Option } from 'commander'
import { configOrThrow, type LoadedConfig, loadConfig } from '../../config/load-config.ts'
import type { Plane } from '../../config/rules.ts'
import type { Config } from '../../config/schema/schema.ts'
import { type SettingName, settingNames, settings } from '../../config/settings.ts'
import { similarTo } from '../../config/similar-name.ts'
import type { Cli } from '../cli.ts'

const ALL_FLAGS = settings.flatMap(setting => settingNames(setting, 'flag'))
const FLAG_NAMES: ReadonlySet<string> = new Set(ALL_FLAGS.map(({ name }) => name))

/**
 * Adds every setting as a flag.
 * @param shown the flags that `--help` lists; `--help-all` lists the others too
 */
export function addSettings(command: Command, cli: Cli, shown: readonly string[] = []): Command {
  command.option('--config <file>', 'configuration file (POSTERN_CONFIG)')
  for (const flag of ALL_FLAGS) {
    const option = new Option(`${flag.name} <value>`, describeFlag(flag, cli.showsAll))
    command.addOption(option.hideHelp(!cli.showsAll && !shown.includes(flag.name)))
  }
  return command.option('--help-all', `print all ${ALL_FLAGS.length} flags, with their defaults`)
}

function describeFlag({ path, setting }: SettingName, inFull: boolean): string {
  const isFile = path !== setting.path
  const description = isFile ? `File that contains ${setting.path}` : (setting.schema.description ?? '')
  if (!inFull) return description
  const variable = isFile ? `${setting.environment}_FILE` : setting.environment
  const byDefault = isFile ? null : describeDefault(setting.schema.default)
  return `${description} (${variable}${byDefault === null ? '' : `; default: ${byDefault}`})`
}

/** @returns null without a default; maps are long, and shown elsewhere */
function describeDefault(value: unknown): string | null {
  if (value === undefined) return null
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join(', ')
  if (typeof value !== 'object' || value === null) return String(value)
  return Object.keys(value).length === 0 ? 'none' : 'see config/default.yaml'
}

/** The settings among the options of a command. */
export function readFlags(command: Command): Map<string, string> {
  const given = command.options.flatMap(option => {
    const value: unknown = command.getOptionValue(option.attributeName())
    return typeof value === 'string' && option.long != null ? [[option.long, value] as const] : []
  })
  return new Map(given.filter(([flag]) => FLAG_NAMES.has(flag)))
}

export function readConfigFlag(command: Command): string | undefined {
  const file: unknown = command.getOptionValue('config')
  return typeof file === 'string' ? file : undefined
}

/** @throws ConfigError, which names every problem */
export function loadOrThrow(cli: Cli, command: Command, planes: readonly Plane[]): Config {
  return configOrThrow(loadSettings(cli, command, planes))
}

export function loadSettings(
  { host }: Cli,
  command: Command,
  planes: readonly Plane[],
  readsCertificates = false,
): LoadedConfig {
  return loadConfig({
    environment: host.environment,
    flags: readFlags(command),
    configFile: readConfigFlag(command),
    planes,
    readsCertificates,
  })
}

export const PLANES: readonly Plane[] = ['gateway', 'console']

/** Completed, and checked by `parsePlane`, which says what a mistyped one could mean. */
export function planeArgument(description: string): Argument {
  return new Argument('[plane]', description).choices(PLANES).argParser(String)
}

/** The plane that a command names; an unknown one is an error of the command line. */
export function parsePlane(plane: string, self: Command): Plane {
  const known = PLANES.find(name => name === plane)
  if (known !== undefined) return known
  return self.error(`error: unknown plane ${plane}: it must be gateway or console${similarTo(plane, PLANES)}`)
}
