import type { TSchema } from 'typebox'
import { Format } from 'typebox/format'
import { Errors } from 'typebox/schema'
import { Settings } from 'typebox/system'
import { formats } from './formats.ts'

/** One thing that is wrong with the settings. */
export interface Fault {
  /** Where, name by name; an item of a list has its number. */
  readonly place: readonly string[]
  readonly problem: string
}

type SchemaError = ReturnType<typeof Errors>[1][number]

/** Many times what there are settings; further mistakes are told once some of these are mended. */
const MAX_ERRORS = 1000

/** @returns all that contradicts the schema, in its order, in words that do not repeat a value */
export function faultsOf(schema: TSchema, candidate: unknown): Fault[] {
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
