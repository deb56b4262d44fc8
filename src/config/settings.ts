import type { TSchema } from 'typebox'
// What schema.ts declares, as `npm run docs` wrote it down: its library is several times the gateway, and only declares.
import configSchema from './settings-schema.json' with { type: 'json' }

export { configSchema }

/** One setting: its one name, and the spellings of it that follow by rule. */
export interface Setting {
  /** `upstream.headersTimeoutMs` */
  readonly path: string
  /** `POSTERN_UPSTREAM_HEADERS_TIMEOUT_MS` */
  readonly environment: string
  /** `--upstream-headers-timeout-ms` */
  readonly flag: string
  readonly schema: SettingSchema
  readonly secret: boolean
}

/** The part of JSON Schema that settings use. */
export interface SettingSchema {
  readonly type?: string
  readonly description?: string
  readonly format?: string
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly items?: SettingSchema
  readonly anyOf?: readonly { readonly const?: unknown }[]
  readonly properties?: Readonly<Record<string, SettingSchema>>
  readonly additionalProperties?: boolean
  readonly secret?: boolean
  readonly environment?: string
}

/** Every setting of the schema, in its order. */
export const settings: readonly Setting[] = listSettings(configSchema, '')

export const settingByPath: ReadonlyMap<string, Setting> = new Map(
  settings.map(setting => [setting.path, setting]),
)

/** Names of groups, such as `keys.memory`: neither a setting nor a mistake. */
export const sectionPaths: ReadonlySet<string> = new Set(
  settings.flatMap(({ path }) => path.split('.').map((_, index, parts) => parts.slice(0, index).join('.'))),
)

function listSettings(schema: TSchema | SettingSchema, prefix: string): Setting[] {
  // TypeBox schemas are plain JSON Schema; the cast names the part of it that is read here.
  const { properties } = schema as SettingSchema
  return Object.entries(properties ?? {}).flatMap(([name, child]) => {
    const path = prefix === '' ? name : `${prefix}.${name}`
    return child.properties !== undefined ? listSettings(child, path) : [toSetting(path, child)]
  })
}

function toSetting(path: string, schema: SettingSchema): Setting {
  const words = path.replace(/[A-Z]/g, letter => `.${letter}`).split('.')
  return {
    path,
    environment: schema.environment ?? `POSTERN_${words.join('_').toUpperCase()}`,
    flag: `--${words.join('-').toLowerCase()}`,
    schema,
    secret: schema.secret === true,
  }
}

/** Completes the sentence "must be …", for people. */
export function expectationOf(
  schema: SettingSchema,
  formats: Readonly<Record<string, { expectation: string }>>,
): string {
  if (schema.format !== undefined) return formats[schema.format]?.expectation ?? schema.format
  if (schema.anyOf?.every(option => option.const !== undefined)) {
    return `one of ${schema.anyOf.map(option => String(option.const)).join(', ')}`
  }
  switch (schema.type) {
    case 'integer':
      return `a whole number from ${schema.minimum} to ${schema.maximum}`
    case 'number':
      return `a number from ${schema.minimum} to ${schema.maximum}`
    case 'boolean':
      return 'true or false'
    case 'array':
      return `a list, each of it ${schema.items === undefined ? 'a value' : expectationOf(schema.items, formats)}`
    case 'string':
      return expectedText(schema)
    default:
      return 'of the form that config/default.yaml shows'
  }
}

function expectedText(schema: SettingSchema): string {
  const length = `a text of ${schema.minLength ?? 0} to ${schema.maxLength ?? 'any number of'} characters`
  return schema.pattern === undefined ? length : `${length} of the form ${schema.pattern}`
}
