import { Errors, Meta } from 'typebox/schema'
import { parseJsonObject } from '../domain/form/json.ts'
import {
  isInside,
  type JsonSchema,
  type ResponseSchema,
  referencesIn,
} from '../domain/route/response-schema.ts'
import type { ConfigProblem } from './config-error.ts'
import type { SettingFiles } from './setting-files.ts'

const MAX_BYTES = 256 * 1024
const DIALECT = Meta['https://json-schema.org/draft/2020-12/schema']

interface NamedRoute {
  readonly name: string
  responseSchema?: unknown
}

/** Replaces the file names of `responseSchema` by what the files hold. */
export function readResponseSchemas(
  routes: readonly NamedRoute[],
  { files, problems, reads }: { files: SettingFiles; problems: ConfigProblem[]; reads: boolean },
): void {
  for (const route of routes) {
    const { name, responseSchema: file } = route
    if (typeof file !== 'string') continue
    const source = `routes.${name}.responseSchema`
    const text = reads ? files.readText({ source, value: file }, file, 'routes') : null
    const read = text === null ? null : parseSchema(text)
    if (typeof read === 'string')
      problems.push({ source, problem: `names a file that ${read}`, path: 'routes' })
    route.responseSchema = { file, schema: typeof read === 'string' ? null : read } satisfies ResponseSchema
  }
}

/** @returns the schema, or what is wrong with the file */
function parseSchema(text: string): JsonSchema | string {
  if (text.length > MAX_BYTES) return `is larger than ${MAX_BYTES / 1024} KiB`
  const schema: JsonSchema | null = parseJsonObject(text)
  if (schema === null) return 'is no JSON object'
  const [isValid, [error]] = Errors(Meta, DIALECT, schema)
  if (!isValid) return `is no JSON Schema (2020-12): at ${error?.instancePath || '/'} it ${error?.message}`
  const outside = referencesIn(schema).find(reference => !isInside(schema, reference))
  return outside === undefined
    ? schema
    : `refers to ${outside.slice(0, 100)}: a reference must be a JSON pointer into the same file, such as #/$defs/file`
}
