import { stringify } from 'yaml'
import { configSchema } from '../../src/config/schema/schema.ts'
import type { Schema } from '../../src/config/schema/schema-builders.ts'
import { describeExpectation } from '../../src/config/validate.ts'

export const DEFAULTS_FILE = new URL('../../config/default.yaml', import.meta.url)

const WIDTH = 118
const HEAD = `Every setting of Postern with its default. Written by npm run docs from src/config, and not read by the program: copy what
you change into a file of your own and name it with --config or POSTERN_CONFIG. Environment variables
(POSTERN_UPSTREAM_URL) and flags (--upstream-url) take precedence over both. Settings without a default stand here as
comments. A secret may come from a file: add File to its name (keyService.tokenFile,
POSTERN_KEY_SERVICE_TOKEN_FILE, --key-service-token-file). A secret that is set but empty is refused, and a reload never goes from some secrets to none.`

/** The text of `config/default.yaml`. */
export function defaultSettings(): string {
  const groups = Object.entries(configSchema.properties).map(([name, schema]) => linesOf(name, schema, ''))
  return [comment(HEAD, ''), ...groups].map(lines => `${lines.join('\n')}\n`).join('\n')
}

function linesOf(name: string, schema: Schema, indent: string): string[] {
  if (schema.properties === undefined)
    return [...meaningLines(schema, indent), ...valueLines(name, schema, indent)]
  const inner = Object.entries(schema.properties).flatMap(([child, childSchema]) =>
    linesOf(child, childSchema, `${indent}  `),
  )
  return [`${indent}${name}:`, ...inner]
}

function meaningLines(schema: Schema, indent: string): string[] {
  const lines = comment(describeSetting(schema), indent)
  for (const [field, fieldSchema] of Object.entries(entrySchemaOf(schema)?.properties ?? {})) {
    const optional = fieldSchema.optional === true ? ' (optional)' : ''
    lines.push(...comment(`- ${field}${optional}: ${describeSetting(fieldSchema)}`, indent))
  }
  return lines
}

/** The schema of the entries of a list or map. */
function entrySchemaOf({ items, patternProperties = {} }: Schema): Schema | undefined {
  return items ?? Object.values(patternProperties)[0]
}

/** The description and the allowed values. */
export function describeSetting(schema: Schema): string {
  const isBounded = schema.type === 'integer' || schema.type === 'number' || schema.enum !== undefined
  return [schema.description ?? '', ...(isBounded ? [describeExpectation(schema)] : [])].join('; ')
}

function valueLines(name: string, schema: Schema, indent: string): string[] {
  if (schema.default === undefined) return [`${indent}# ${name}:`]
  const yaml = stringify({ [name]: schema.default }, { lineWidth: 0 })
  return yaml
    .trimEnd()
    .split('\n')
    .map(line => indent + line)
}

/** Text as comment lines, without Markdown. */
function comment(text: string, indent: string): string[] {
  const lines: string[] = []
  let line = `${indent}#`
  for (const word of text.replaceAll('`', '').split(/\s+/)) {
    if (line.length + 1 + word.length > WIDTH) {
      lines.push(line)
      line = `${indent}#`
    }
    line += ` ${word}`
  }
  return [...lines, line]
}
