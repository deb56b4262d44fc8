import { Format } from 'typebox/format'
import { Errors } from 'typebox/schema'
import { Settings } from 'typebox/system'
import type { ConfigProblem } from './config-error.ts'
import { formats } from './formats.ts'
import { configSchema } from './schema/schema.ts'
import type { Schema } from './schema/schema-builders.ts'
import { type Layer, settingByPath, valueAt } from './settings.ts'
import { similarTo } from './similar-name.ts'

type SchemaError = ReturnType<typeof Errors>[1][number]

/** Many times the number of settings: every problem is named in one run. */
const MAX_ERRORS = 1000

for (const [name, format] of Object.entries(formats)) Format.Set(name, format.accepts)
Settings.Set({ maxErrors: MAX_ERRORS })

/** A schema violation. */
interface Violation {
  /** Name by name from the root; items of a list by number. */
  readonly location: readonly string[]
  readonly problem: string
}

/** @returns one problem for each setting, or part of a setting, that contradicts the schema, in the schema's order */
export function validate(candidate: unknown, given: Layer): ConfigProblem[] {
  const [, errors] = Errors(configSchema, candidate)
  const problems = inMeantForms(errors)
    .flatMap(error => violationsIn(error, candidate))
    .map(violation => toProblem(violation, candidate, given))
  return [...new Map(problems.map(problem => [problem.source, problem])).values()]
}

/** Where a value may have several forms, a constant says which is meant: without the errors of the other forms. */
function inMeantForms(errors: readonly SchemaError[]): SchemaError[] {
  const others = errors
    .filter(({ keyword }) => keyword === 'const')
    .map(({ schemaPath }) => schemaPath.slice(0, schemaPath.lastIndexOf('/properties/')))
  return errors.filter(({ keyword, schemaPath }) => {
    if (keyword === 'const') return true
    if (keyword === 'anyOf') return !others.some(form => form.startsWith(`${schemaPath}/anyOf/`))
    return !others.some(form => schemaPath === form || schemaPath.startsWith(`${form}/`))
  })
}

function violationsIn(error: SchemaError, candidate: unknown): Violation[] {
  const location = error.instancePath.split('/').slice(1).map(unescapePointer)
  switch (error.keyword) {
    case 'required':
      return error.params.requiredProperties.map(name => ({
        location: [...location, name],
        problem: 'is missing',
      }))
    case 'additionalProperties':
      return error.params.additionalProperties.map(name => ({
        location,
        problem: `has an unknown field: ${name}${similarTo(name, fieldsAt(location))}`,
      }))
    case 'boolean':
      // Repeats `additionalProperties` for each unknown name.
      return []
    case 'format':
      return [{ location, problem: `must be ${formats[error.params.format]?.expectation}` }]
    case 'const': {
      const allowed = schemasAt(location).map(schema => schema.const)
      const isMeant = allowed.some(value => value === valueAt(candidate, location.join('.')))
      return isMeant ? [] : [{ location, problem: `must be one of ${allowed.join(', ')}` }]
    }
    case 'minimum':
    case 'maximum':
    case 'minLength':
    case 'maxLength':
    case 'pattern':
    case 'type':
    case 'enum': {
      const [schema, ...others] = schemasAt(location)
      const isOneForm = schema !== undefined && others.length === 0
      return [{ location, problem: isOneForm ? `must be ${describeExpectation(schema)}` : error.message }]
    }
    default:
      return [{ location, problem: error.message }]
  }
}

/** Names that may stand at this place, in any of the forms that its value may have. */
function fieldsAt(location: readonly string[]): string[] {
  return schemasAt(location).flatMap(({ properties }) => Object.keys(properties ?? {}))
}

function schemasAt(location: readonly string[]): Schema[] {
  const flatten = (schema: Schema): Schema[] => [schema, ...(schema.anyOf ?? []).flatMap(flatten)]
  return location.reduce<Schema[]>(
    (schemas, name) =>
      schemas.flatMap(({ properties, patternProperties, items }) => {
        const named = properties?.[name]
        const children = [...(named === undefined ? [] : [named]), ...Object.values(patternProperties ?? {})]
        return [...children, ...(items === undefined ? [] : [items])].flatMap(flatten)
      }),
    [configSchema],
  )
}

/** RFC 6901, section 4. */
function unescapePointer(name: string): string {
  return name.replaceAll('~1', '/').replaceAll('~0', '~')
}

/** Names the setting as it was written, and where in its value the violation is. */
function toProblem({ location, problem }: Violation, candidate: unknown, given: Layer): ConfigProblem {
  for (let length = location.length; length > 0; length--) {
    const path = location.slice(0, length).join('.')
    const setting = settingByPath.get(path)
    if (setting === undefined) continue
    const { source = path, partSource } = given.get(path) ?? {}
    const within = location.slice(length)
    if (within.length === 0)
      return { source, problem: describeProblem(setting.schema, valueAt(candidate, path)), path }
    return { source: partSource?.(within) ?? `${source}, at ${within.join('.')}`, problem, path }
  }
  return { source: location.join('.'), problem }
}

function describeProblem(schema: Schema, value: unknown): string {
  const format = schema.format === undefined ? undefined : formats[schema.format]
  const known = typeof value === 'string' ? format?.explainProblem?.(value) : null
  return known ?? `must be ${describeExpectation(schema)}`
}

/** Completes the sentence "must be …". */
export function describeExpectation(schema: Schema): string {
  if (schema.format !== undefined) return formats[schema.format]?.expectation ?? schema.format
  if (schema.enum !== undefined) return `one of ${schema.enum.join(', ')}`
  switch (schema.type) {
    case 'integer':
      return `a whole number from ${schema.minimum} to ${schema.maximum}`
    case 'number':
      return `a number from ${schema.minimum} to ${schema.maximum}`
    case 'boolean':
      return 'true or false'
    case 'array':
      return describeListExpectation(schema)
    case 'string':
      return describeTextExpectation(schema)
    default:
      return schema.properties === undefined
        ? `of the form that config/default.yaml shows${describeNames(schema)}`
        : describeFields(Object.keys(schema.properties), schema.required)
  }
}

function describeListExpectation({ items, maxItems }: Schema): string {
  const most = maxItems === undefined ? '' : ` of at most ${maxItems}`
  return `a list${most}, each of it ${items === undefined ? 'a value' : describeExpectation(items)}`
}

function describeFields(fields: readonly string[], required: readonly string[] = []): string {
  const optional = fields.filter(name => !required.includes(name))
  const needed = required.length === 0 ? [] : [`with ${required.join(', ')}`]
  const allowed = optional.length === 0 ? [] : [`optionally with ${optional.join(', ')}`]
  return `an object ${[...needed, ...allowed].join(', ')}`
}

function describeNames({ patternProperties = {}, maxProperties }: Schema): string {
  const [pattern] = Object.keys(patternProperties)
  if (pattern === undefined) return ''
  const most = maxProperties === undefined ? '' : `, at most ${maxProperties} of them`
  return `, with names of the form ${pattern}${most}`
}

function describeTextExpectation(schema: Schema): string {
  const { minLength, maxLength, pattern } = schema
  const isBounded = minLength !== undefined || maxLength !== undefined
  const length = isBounded ? ` of ${minLength ?? 0} to ${maxLength ?? 'any number of'} characters` : ''
  return `a text${length}${pattern === undefined ? '' : ` of the form ${pattern}`}`
}
