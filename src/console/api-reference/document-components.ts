import type { TSchema } from 'typebox'

export interface Components {
  /** Schemas with a title, by title. */
  readonly schemas: Readonly<Record<string, unknown>>
  /** A copy of the schema that refers to a component wherever one has a title. */
  refer(schema: TSchema): unknown
}

/** Collects the schemas with a title as components, so that each stands in the document once. */
export function createComponents(): Components {
  const schemas: Record<string, unknown> = {}
  function refer(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(refer)
    if (typeof value !== 'object' || value === null) return value
    const { title, ...rest } = value as Readonly<Record<string, unknown>>
    const copy = Object.fromEntries(Object.entries(rest).map(([name, part]) => [name, refer(part)]))
    if (typeof title !== 'string') return title === undefined ? copy : { title: refer(title), ...copy }
    schemas[title] ??= copy
    return { $ref: `#/components/schemas/${title}` }
  }
  return { schemas, refer }
}
