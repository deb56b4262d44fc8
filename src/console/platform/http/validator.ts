import type { FastifySchemaCompiler } from 'fastify'
import type { TSchema } from 'typebox'
import { Compile, type Validator } from 'typebox/schema'

/** By schema. They are constants, and several servers of a process have the same. */
const validators = new WeakMap<TSchema, Validator>()

/**
 * Checks requests by the library that declares their schemas, each compiled by the first request that needs it. Fastify's own compilers
 * would load Ajv and compile all of them at each start. Nothing is coerced, dropped or filled in, which would hide a caller's mistake.
 */
export const requestValidator: FastifySchemaCompiler<TSchema> = ({ schema }) => {
  return (sent: unknown) => {
    const validator = validators.get(schema) ?? compile(schema)
    return validator.Check(sent) || { error: violationsIn(validator.Errors(sent)[1]) }
  }
}

function compile(schema: TSchema): Validator {
  const validator = Compile(schema)
  validators.set(schema, validator)
  return validator
}

type Violation = ReturnType<Validator['Errors']>[1][number]

/** What is missing or unknown comes first: other violations may follow from it. */
const ORDER: readonly string[] = ['type', 'required', 'additionalProperties']

function violationsIn(found: readonly Violation[]): Violation[] {
  const isOfRoot = ({ instancePath }: Violation) => instancePath === ''
  const first = ORDER.flatMap(keyword => found.filter(each => isOfRoot(each) && each.keyword === keyword))
  return [...first, ...found.filter(each => !first.includes(each))]
}
