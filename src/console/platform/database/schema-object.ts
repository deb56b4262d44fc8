/** A table, column, constraint, index, trigger, function, rule, policy or view. */
export interface SchemaObject {
  /** Its kind and name. */
  readonly name: string
  /** Equal texts mean the same. */
  readonly definition: string
}

export const SCHEMA_CHANGES = ['missing', 'changed', 'added'] as const

/** Where the schema of a database is not as the migrations make it. */
export interface SchemaDifference {
  readonly change: (typeof SCHEMA_CHANGES)[number]
  /** The kind and name of the object. */
  readonly name: string
}

/** @param expected as the migrations make them */
export function compareSchemas(
  expected: readonly SchemaObject[],
  actual: readonly SchemaObject[],
): SchemaDifference[] {
  const found = definitionsByName(actual)
  const wanted = definitionsByName(expected)
  return [...new Set([...found.keys(), ...wanted.keys()])].flatMap((name): SchemaDifference[] => {
    const [present, before] = [found.get(name), wanted.get(name)]
    if (present === before) return []
    if (before === undefined) return [{ change: 'added', name }]
    return [{ change: present === undefined ? 'missing' : 'changed', name }]
  })
}

/** A damaged catalogue can have two objects of one name. */
function definitionsByName(objects: readonly SchemaObject[]): ReadonlyMap<string, string> {
  const definitions = new Map<string, string>()
  for (const { name, definition } of objects) {
    const before = definitions.get(name)
    definitions.set(name, before === undefined ? definition : `${before}\n${definition}`)
  }
  return definitions
}

const MAX_NAMED = 5

/** `added trigger x on keys, missing index y and 3 more` */
export function describeDifferences(differences: readonly SchemaDifference[]): string {
  const named = differences.slice(0, MAX_NAMED).map(({ change, name }) => `${change} ${name}`)
  const others = differences.length - named.length
  return others > 0 ? `${named.join(', ')} and ${others} more` : named.join(', ')
}
