import type { Given, Mistake } from './sources.ts'

/** Settings of entries by name, to which each layer adds its own. */
const MERGED: ReadonlySet<string> = new Set(['routes', 'scopes'])

/**
 * A later layer's value of a setting over an earlier one's. Where entries have names, the later ones are added; one of the
 * same name replaces the earlier one whole, and null removes it. Any other value replaces the earlier one.
 */
export function mergeByName(
  path: string,
  earlier: Given | undefined,
  later: Given,
  mistakes: Mistake[],
): Given {
  const added = MERGED.has(path) ? entriesOf(later.value) : null
  if (added === null) return later
  const entries = new Map(entriesOf(earlier?.value) ?? [])
  const names = added.map(([name]) => name)
  for (const [index, [name, entry]] of added.entries()) {
    if (names.indexOf(name) < index) {
      mistakes.push({ spelling: later.spelling, problem: `has two entries of the name ${name}`, path })
    } else if (entry !== null) entries.set(name, entry)
    else if (!entries.delete(name)) {
      const problem = 'is null, which removes an entry of this name, and there is none'
      mistakes.push({ spelling: `${later.spelling}, at ${name}`, problem, path })
    }
  }
  return { spelling: later.spelling, value: Object.fromEntries(entries) }
}

/** A map by name, or a list of entries that hold theirs. @returns null where it is neither */
function entriesOf(value: unknown): [name: string, entry: unknown][] | null {
  if (isMap(value)) return Object.entries(value)
  if (!Array.isArray(value) || value.length === 0) return null
  const entries = value.flatMap((item: unknown): [string, unknown][] => {
    if (!isMap(item) || typeof item['name'] !== 'string') return []
    const { name, ...entry } = item
    return [[item['name'], entry]]
  })
  return entries.length === value.length ? entries : null
}

/** @returns the names that stood in the defaults and are gone, for each setting of entries by name */
export function removedNames(
  defaults: ReadonlyMap<string, Given>,
  given: ReadonlyMap<string, Given>,
): ReadonlyMap<string, readonly string[]> {
  const namesIn = (layer: ReadonlyMap<string, Given>, path: string) =>
    Object.keys(Object(layer.get(path)?.value))
  return new Map(
    [...MERGED].map(path => {
      const left = new Set(namesIn(given, path))
      return [path, namesIn(defaults, path).filter(name => !left.has(name))]
    }),
  )
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
