import { configSchema } from '../../src/config/schema/schema.ts'
import { settingByPath, settings } from '../../src/config/settings.ts'
import { REGION_NAME } from '../../src/domain/region.ts'
import { isAddress } from './chart-settings.ts'

/** JSON Schema as plain data. */
export type JsonSchema = { [keyword: string]: unknown }

/**
 * The program's formats as patterns that Helm supports (RE2, no lookahead). They may accept values that the program
 * rejects, but never reject what it accepts; a test compares the two.
 */
export const PATTERNS: Readonly<Record<string, string>> = {
  'http-url': '^[Hh][Tt][Tt][Pp][Ss]?://[^\\s?#@]+$',
  'host-and-port': '^[A-Za-z0-9._\\[\\]:-]+:[0-9]{1,5}$',
  'redis-url': '^[Rr][Ee][Dd][Ii][Ss][Ss]?://\\S+$',
  'redis-node': '^([Rr][Ee][Dd][Ii][Ss][Ss]?://)?[A-Za-z0-9._\\[\\]:-]+$',
  'database-url': '^(sqlite:|[Pp][Oo][Ss][Tt][Gg][Rr][Ee][Ss]([Qq][Ll])?://)\\S+$',
  'proxy-url': '^[Hh][Tt][Tt][Pp][Ss]?://[^\\s?#]+$',
  'no-proxy-entry':
    '^(\\*|(\\*?\\.)?[0-9A-Za-z_-]+(\\.[0-9A-Za-z_-]+)*\\.?(:[0-9]{1,5})?|[0-9A-Fa-f.:]+(/[0-9]{1,3})?|\\[[0-9A-Fa-f.:]+\\](:[0-9]{1,5})?)$',
  cidr: '^[0-9A-Fa-f.:]+(/[0-9]{1,3})?$',
  scope: '^[\\x21\\x23-\\x5b\\x5d-\\x7e]{1,64}$',
  'forwardable-header': '^[A-Za-z0-9-]{1,128}$',
  'path-template': '^(/([A-Za-z0-9._~-]+|\\{[A-Za-z][A-Za-z0-9]*\\}))+$',
  'counted-workspace': '^[A-Za-z0-9._~-]{1,128}$',
  'signing-secret': '^[A-Za-z0-9+/_-]+={0,2}$',
  'bearer-token': '^[\\x21-\\x2b\\x2d-\\x7e]{16,512}$',
  'webhook-secret': '^(whsec_)?[A-Za-z0-9+/]+={0,2}$',
}

const OUR_KEYWORDS: ReadonlySet<string> = new Set(['secret', 'environment', 'optional'])

/** Schema of the settings in values: each is optional, no others are allowed, and secrets are file names or addresses. */
export function configValuesSchema(): JsonSchema {
  return section(plain(configSchema), '')
}

/** The same tree with a reference to a Secret in place of each secret and file. */
export function referencesSchema(): JsonSchema {
  const root: JsonSchema = closed('References by the path of the setting', {})
  for (const { path, secret, schema } of settings) {
    if (!secret && !path.endsWith('File')) continue
    const parts = path.split('.')
    const leaf = parts.pop() ?? path
    let parent = root
    for (const part of parts) {
      const properties = propertiesOf(parent)
      properties[part] ??= closed(`References below ${part}`, {})
      // Created one line above, or by an earlier setting, as a section.
      parent = properties[part] as JsonSchema
    }
    const referenceTo = secret ? '#/$defs/secretReference' : '#/$defs/fileReference'
    propertiesOf(parent)[leaf] =
      path === 'upstream.headers'
        ? {
            type: 'object',
            description: schema.description,
            patternProperties: { '^[A-Za-z0-9-]{1,128}$': { $ref: referenceTo } },
            additionalProperties: false,
          }
        : { $ref: referenceTo }
  }
  propertiesOf(root)['regions'] = {
    type: 'object',
    description: 'References of each region of `config.regions`, by its name',
    patternProperties: { [REGION_NAME]: regionReferences },
    additionalProperties: false,
  }
  return root
}

const secretReference = { $ref: '#/$defs/secretReference' }
const regionReferences = closed('References of a region', {
  redis: closed('References of its Redis', {
    url: secretReference,
    password: secretReference,
    sentinel: closed('References of its Sentinels', { password: secretReference }),
    caFile: { $ref: '#/$defs/fileReference' },
  }),
})

export const referenceDefinitions: JsonSchema = {
  secretReference: closed('A key of a Secret that exists', {
    existingSecret: { type: 'string' },
    key: { type: 'string' },
  }),
  fileReference: closed('A key of a Secret or ConfigMap that exists', {
    existingSecret: { type: 'string' },
    existingConfigMap: { type: 'string' },
    key: { type: 'string' },
  }),
}

function section(schema: JsonSchema, prefix: string): JsonSchema {
  const properties: JsonSchema = {}
  for (const [name, child] of Object.entries(propertiesOf(schema))) {
    const path = prefix === '' ? name : `${prefix}.${name}`
    const setting = settingByPath.get(path)
    // Every child of a schema is a schema.
    if (setting === undefined) properties[name] = section(child as JsonSchema, path)
    else if (setting.secret && path !== 'upstream.headers') {
      // A guard in the chart rejects secrets here, with an error text that no schema could give.
      properties[name] = isAddress(setting)
        ? inChart(child as JsonSchema)
        : { description: `${setting.schema.description ?? ''}: only by reference, in \`secrets.${path}\`` }
      properties[`${name}File`] = {
        type: 'string',
        minLength: 1,
        description: `File that holds ${path}, mounted by other means than \`secrets\``,
      }
    } else properties[name] = byName(path, inChart(child as JsonSchema))
  }
  return closed(prefix === '' ? 'Settings of the program' : `Settings below ${prefix}`, properties)
}

/**
 * Entries by name, where null removes one. Routes may also be a list with a name in each entry. The address of a region may be in
 * `secrets` alone.
 */
function byName(path: string, schema: JsonSchema): JsonSchema {
  if (path === 'regions') {
    return { ...schema, items: { ...(schema['items'] as JsonSchema), required: ['name'] } }
  }
  if (path !== 'routes' && path !== 'scopes') return schema
  const { description, default: byDefault, ...map } = schema
  const patterns = schema['patternProperties'] as JsonSchema
  const orNull = Object.fromEntries(
    Object.entries(patterns).map(([name, entry]) => [name, { anyOf: [entry, { type: 'null' }] }]),
  )
  const named = { ...map, patternProperties: orNull, minProperties: 0 }
  if (path === 'scopes') return { description, default: byDefault, ...named }
  const [[pattern, entry] = []] = Object.entries(patterns)
  const { properties, required } = entry as { properties: JsonSchema; required: string[] }
  const item = {
    ...(entry as JsonSchema),
    properties: { name: { type: 'string', pattern }, ...properties },
    required: ['name', ...required],
  }
  return { description, default: byDefault, anyOf: [named, { type: 'array', minItems: 1, items: item }] }
}

/** Without the project's own keywords, and with its formats as patterns. */
function inChart(schema: JsonSchema): JsonSchema {
  const kept = Object.entries(schema).flatMap(([keyword, value]): [string, unknown][] => {
    if (OUR_KEYWORDS.has(keyword)) return []
    if (keyword === 'format') {
      const pattern = PATTERNS[String(value)]
      if (pattern === undefined) throw new Error(`PATTERNS lacks the format ${String(value)}`)
      return [['pattern', pattern]]
    }
    return [[keyword, inner(keyword, value)]]
  })
  return Object.fromEntries(kept)
}

function inner(keyword: string, value: unknown): unknown {
  if (keyword === 'properties' || keyword === 'patternProperties') {
    return Object.fromEntries(
      Object.entries(value as JsonSchema).map(([name, child]) => [name, inChart(child as JsonSchema)]),
    )
  }
  if (keyword === 'items') return inChart(value as JsonSchema)
  if (keyword === 'anyOf') return (value as JsonSchema[]).map(inChart)
  return value
}

export function closed(description: string, properties: JsonSchema, more: JsonSchema = {}): JsonSchema {
  return { type: 'object', description, properties, additionalProperties: false, ...more }
}

function propertiesOf(schema: JsonSchema): JsonSchema {
  // Only sections are read here, created above or by TypeBox.
  return schema['properties'] as JsonSchema
}

/** As plain data. */
function plain(schema: unknown): JsonSchema {
  return JSON.parse(JSON.stringify(schema)) as JsonSchema
}
