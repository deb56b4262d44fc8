import { createRequire } from 'node:module'
import type { TSchema } from 'typebox'
import { fits } from './fits.ts'
import { formats } from './formats.ts'

/** One thing that is wrong with the settings. */
export interface Fault {
  /** Where, name by name; an item of a list has its number. */
  readonly place: readonly string[]
  readonly problem: string
}

type Library = typeof import('typebox/schema')
type SchemaError = ReturnType<Library['Errors']>[1][number]

const load = createRequire(import.meta.url)

/** Many times what there are settings; further mistakes are told once some of these are mended. */
const MAX_ERRORS = 1000

/** @returns all that contradicts the schema, in its order, in words that do not repeat a value */
export function faultsOf(schema: TSchema, candidate: unknown): Fault[] {
  // Most starts have nothing to be told, and finding the words for it takes more than two hundred files.
  return fits(schema, candidate) ? [] : faultsInWords(schema, candidate)
}

/** The same, by the library alone. */
export function faultsInWords(schema: TSchema, candidate: unknown): Fault[] {
  // What require gives has no type: these are the types of the files named beside them.
  const { Errors } = load('typebox/schema') as Library
  const { Format } = load('typebox/format') as typeof import('typebox/format')
  const { Settings } = load('typebox/system') as typeof import('typebox/system')
  for (const [name, format] of Object.entries(formats)) Format.Set(name, format.accepts)
  Settings.Set({ maxErrors: MAX_ERRORS })
  const [, errors] = Errors(schema, candidate)
  return errors.flatMap(faultsIn)
}

function faultsIn(error: SchemaError): Fault[] {
  const place = error.instancePath.split('/').slice(1).map(unescaped)
  switch (error.keyword) {
    case 'required':
      return error.params.requiredProperties.map(name => ({ place: [...place, name], problem: 'is missing' }))
    case 'additionalProperties':
      return error.params.additionalProperties.map(name => ({
        place,
        problem: `holds an unknown name: ${name}`,
      }))
    case 'boolean':
      // Of each unknown name, again.
      return []
    case 'format':
      return [{ place, problem: `must be ${formats[error.params.format]?.expectation}` }]
    default:
      return [{ place, problem: error.message }]
  }
}

/** RFC 6901, section 4. */
function unescaped(name: string): string {
  return name.replaceAll('~1', '/').replaceAll('~0', '~')
}
