import { configSchema } from './schema/schema.ts'
import type { Schema } from './schema/schema-builders.ts'

/** One setting: its path, and the other names that follow from it by rule. */
export interface Setting {
  /** `upstream.headersTimeoutMs` */
  readonly path: string
  /** `POSTERN_UPSTREAM_HEADERS_TIMEOUT_MS` */
  readonly environment: string
  /** `--upstream-headers-timeout-ms` */
  readonly flag: string
  readonly schema: Schema
  readonly secret: boolean
}

/** What the contract for key services calls a setting, beside its own name. */
export const CONTRACT_NAMES: ReadonlyMap<string, string> = new Map([['redis.beats', 'redis.heartbeats']])

/** Every setting of the schema, in its order. */
export const settings: readonly Setting[] = listSettings(configSchema, '')

export const settingByPath: ReadonlyMap<string, Setting> = new Map(
  settings.map(setting => [setting.path, setting]),
)

/** Settings that name a file, or a list of files, whose content is used, beside the files of secrets. */
export const fileSettings: readonly Setting[] = settings.filter(
  ({ path }) => path.endsWith('File') || path.endsWith('Files'),
)

/** Names of groups, such as `keys.memory`. */
export const sectionPaths: ReadonlySet<string> = new Set(
  settings.flatMap(({ path }) => path.split('.').map((_, index, parts) => parts.slice(0, index).join('.'))),
)

function listSettings({ properties = {} }: Schema, prefix: string): Setting[] {
  return Object.entries(properties).flatMap(([name, child]) => {
    const path = prefix === '' ? name : `${prefix}.${name}`
    return child.properties !== undefined ? listSettings(child, path) : [toSetting(path, child)]
  })
}

function toSetting(path: string, schema: Schema): Setting {
  const words = path.replace(/[A-Z]/g, letter => `.${letter}`).split('.')
  return {
    path,
    environment: schema.environment ?? `POSTERN_${words.join('_').toUpperCase()}`,
    flag: `--${words.join('-').toLowerCase()}`,
    schema,
    secret: schema.secret === true,
  }
}

/** A name that a value can be given under: the setting's own, or that of the file that holds a secret. */
export interface SettingName {
  readonly name: string
  /** `keyService.token`, or `keyService.tokenFile` */
  readonly path: string
  readonly setting: Setting
}

export function settingNames(setting: Setting, kind: 'environment' | 'flag'): SettingName[] {
  const own = { name: setting[kind], path: setting.path, setting }
  const others = [...CONTRACT_NAMES].filter(([, path]) => path === setting.path)
  if (!setting.secret)
    return [own, ...others.map(([name]) => ({ ...own, name: toSetting(name, setting.schema)[kind] }))]
  const suffix = kind === 'flag' ? '-file' : '_FILE'
  return [own, { name: own.name + suffix, path: `${setting.path}File`, setting }]
}

/** A value, and the name under which it was written. */
export interface GivenValue {
  readonly source: string
  /** File, line and name of a part of a value; null if the file does not have it. */
  readonly partSource?: (within: readonly string[]) => string | null
  readonly value: unknown
}

/** The values of one source, by path; `keyService.tokenFile` stands beside `keyService.token`. */
export type Layer = ReadonlyMap<string, GivenValue>

export function valueAt(config: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((value, name) => readProperty(value, name), config)
}

function readProperty(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}

/** An empty list or map counts as not set. */
export function isSet(value: unknown): boolean {
  return typeof value === 'object' && value !== null ? Object.keys(value).length > 0 : value !== undefined
}
