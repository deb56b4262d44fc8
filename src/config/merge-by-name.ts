import type { ConfigProblem } from './config-error.ts'
import type { GivenValue, Layer } from './settings.ts'

/** Settings whose entries have names: each layer adds to them. */
const MERGED_SETTINGS: ReadonlySet<string> = new Set(['routes', 'scopes'])

/**
 * The value of a setting in a later layer over that in an earlier one. If entries have names, the later ones are added: one of
 * the same name replaces the earlier one, and null removes it. Any other value replaces the earlier one.
 */
export function mergeByName(
  path: string,
  earlier: GivenValue | undefined,
  later: GivenValue,
  problems: ConfigProblem[],
): GivenValue {
  const added = MERGED_SETTINGS.has(path) ? entriesOf(later.value) : null
  if (added === null) return later
  const entries = new Map(entriesOf(earlier?.value) ?? [])
  const names = added.map(([name]) => name)
  for (const [index, [name, entry]] of added.entries()) {
    if (names.indexOf(name) < index) {
      problems.push({ spelling: later.spelling, problem: `has two entries of the name ${name}`, path })
    } else if (entry !== null) entries.set(name, entry)
    else if (!entries.delete(name)) {
      const problem = 'is null, which removes an entry of this name, but there is none'
      problems.push({ spelling: `${later.spelling}, at ${name}`, problem, path })
    }
  }
  return { spelling: later.spelling, value: Object.fromEntries(entries) }
}

/** A map by name, or a list whose entries hold their names. @returns null if it is neither */
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

/** @returns the names of default entries that are gone, for each setting whose entries have names */
export function removedNames(defaults: Layer, given: Layer): ReadonlyMap<string, readonly string[]> {
  const namesIn = (layer: Layer, path: string) => Object.keys(Object(layer.get(path)?.value))
  return new Map(
    [...MERGED_SETTINGS].map(path => {
      const left = new Set(namesIn(given, path))
      return [path, namesIn(defaults, path).filter(name => !left.has(name))]
    }),
  )
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
