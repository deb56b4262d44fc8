import { formats } from './formats.ts'

/** JSON Schema as it was read: every keyword may be anything. */
export type JsonSchema = Readonly<Record<string, unknown>>

type Check = (wanted: unknown, value: unknown, schema: JsonSchema) => boolean

const SAYING_NOTHING = new Set(['description', 'secret', 'environment'])

const CHECKS: Readonly<Record<string, Check>> = {
  type: (wanted, value) => isOfType(value, wanted),
  const: (wanted, value) => value === wanted,
  anyOf: (wanted, value) => schemasIn(wanted).some(schema => fits(schema, value)),
  minimum: (wanted, value) => Number(value) >= Number(wanted),
  maximum: (wanted, value) => Number(value) <= Number(wanted),
  minLength: (wanted, value) => lengthOf(value) >= Number(wanted),
  maxLength: (wanted, value) => lengthOf(value) <= Number(wanted),
  pattern: (wanted, value) => new RegExp(String(wanted), 'u').test(String(value)),
  format: (wanted, value) => formats[String(wanted)]?.accepts(String(value)) === true,
  items: (wanted, value) => Array.isArray(value) && value.every(item => fits(wanted, item)),
  minItems: (wanted, value) => Array.isArray(value) && value.length >= Number(wanted),
  maxItems: (wanted, value) => Array.isArray(value) && value.length <= Number(wanted),
  minProperties: (wanted, value) => Object.keys(Object(value)).length >= Number(wanted),
  maxProperties: (wanted, value) => Object.keys(Object(value)).length <= Number(wanted),
  required: (wanted, value) =>
    Array.isArray(wanted) && wanted.every(name => Object.hasOwn(Object(value), name)),
  properties: (wanted, value) =>
    Object.entries(Object(value)).every(([name, child]) => !has(wanted, name) || fits(wanted[name], child)),
  patternProperties: (wanted, value) =>
    Object.entries(Object(value)).every(([name, child]) =>
      matching(wanted, name).every(schema => fits(schema, child)),
    ),
  additionalProperties: (wanted, value, { properties, patternProperties }) =>
    wanted === false &&
    Object.keys(Object(value)).every(
      name => has(properties, name) || matching(patternProperties, name).length > 0,
    ),
}

/**
 * Whether a value certainly fits. False says nothing: it may lack something, or its schema hold a keyword that is not known
 * here; who wants to know asks the library, which takes longer to load than the rest of the settings takes in all.
 */
export function fits(schema: unknown, value: unknown): boolean {
  if (!isMap(schema) || !('type' in schema || 'anyOf' in schema)) return false
  return Object.entries(schema).every(
    ([keyword, wanted]) => SAYING_NOTHING.has(keyword) || CHECKS[keyword]?.(wanted, value, schema) === true,
  )
}

function isOfType(value: unknown, type: unknown): boolean {
  switch (type) {
    case 'integer':
      return Number.isInteger(value)
    case 'number':
      return Number.isFinite(value)
    case 'array':
      return Array.isArray(value)
    case 'object':
      return isMap(value)
    default:
      return (type === 'string' || type === 'boolean') && typeof value === type
  }
}

/** Not a number, which is neither more nor less than any, where characters could be counted in more than one way. */
function lengthOf(value: unknown): number {
  return typeof value === 'string' && /^[\x20-\x7e]*$/.test(value) ? value.length : Number.NaN
}

function matching(patterns: unknown, name: string): unknown[] {
  return Object.entries(Object(patterns)).flatMap(([pattern, schema]) =>
    new RegExp(pattern, 'u').test(name) ? [schema] : [],
  )
}

function schemasIn(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function has(value: unknown, name: string): value is JsonSchema {
  return isMap(value) && Object.hasOwn(value, name)
}

function isMap(value: unknown): value is JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
