import { Errors, Meta } from 'typebox/schema'
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
  const schema = parseJson(text)
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return 'is no JSON object'
  const [isValid, [error]] = Errors(Meta, DIALECT, schema)
  if (!isValid) return `is no JSON Schema (2020-12): at ${error?.instancePath || '/'} it ${error?.message}`
  // Only arrays and null are objects without names, and neither gets here.
  const named = schema as JsonSchema
  const outside = referencesIn(named).find(reference => !isInside(named, reference))
  return outside === undefined
    ? named
    : `refers to ${outside.slice(0, 100)}: a reference must be a JSON pointer into the same file, such as #/$defs/file`
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
