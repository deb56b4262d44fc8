/** A JSON Schema (2020-12) that describes what the upstream returns. */
export type JsonSchema = Readonly<Record<string, unknown>>

/** The schema of a route's responses, and the file that it stands in. */
export interface ResponseSchema {
  readonly file: string
  /** Null in a process that is only a gateway: it describes nothing, and needs no such files. */
  readonly schema: JsonSchema | null
}

/** Keywords whose values are data, not schemas. */
const DATA = new Set(['const', 'enum', 'default', 'examples', 'example'])

/** Every `$ref` of the schema. */
export function referencesIn(schema: unknown): string[] {
  const found: string[] = []
  mapReferences(schema, reference => {
    found.push(reference)
    return reference
  })
  return found
}

/** Whether the reference is a JSON pointer (RFC 6901) to a part of this schema. */
export function isInside(schema: JsonSchema, reference: string): boolean {
  if (reference !== '#' && !reference.startsWith('#/')) return false
  const names = reference.split('/').slice(1)
  let part: unknown = schema
  for (const name of names) {
    const key = name.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof part !== 'object' || part === null || !Object.hasOwn(part, key)) return false
    part = (part as JsonSchema)[key]
  }
  return true
}

/**
 * The schema as a part of another document: its references lead to its new place.
 * @param place where it stands there, such as `#/components/schemas/response-files`
 */
export function embedSchema({ $schema: _, $id: __, ...schema }: JsonSchema, place: string): unknown {
  return mapReferences(schema, reference => `${place}${reference.slice(1)}`)
}

function mapReferences(value: unknown, change: (reference: string) => string): unknown {
  if (Array.isArray(value)) return value.map(part => mapReferences(part, change))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([name, part]) => {
    if (name === '$ref' && typeof part === 'string') return [name, change(part)]
    return [name, DATA.has(name) ? part : mapReferences(part, change)]
  })
  return Object.fromEntries(entries)
}
